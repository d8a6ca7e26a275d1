orders: list
least: float

sums = {}
for order in orders:
    if order["total"] >= least:
        sums[order["customer"]] = sums.get(order["customer"], 0) + order["total"]
result: dict = sums
