orders: list
least: float

groups = {"paid": [], "open": [], "refunded": []}
for order in orders:
    if order["total"] >= least:
        groups["paid" if order["paid"] else "open"].append(order["total"])
result: dict = {name: sum(values) / len(values) if values else 0 for name, values in groups.items()}
