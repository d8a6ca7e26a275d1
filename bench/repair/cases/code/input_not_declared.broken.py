from collections import defaultdict

least: float

totals = defaultdict(float)
for order in orders:
    totals[order["customer"]] += order["total"]

result: dict = {name: total for name, total in totals.items() if total >= least}
