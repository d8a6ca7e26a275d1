orders: list
least: float

groups = {"paid": [], "open": [], "refunded": []}
for order in orders:
    if order["total"] >= least:
        groups["paid" if order["paid"] else "open"].append(order["total"])
result: dict = {name: sum(values) / len(values) for name, values in groups.items()}
