orders: list
least: float

result: dict = {}
for order in orders:
    if order["total"] >= least:
        result[order["id"]] = order["total"]
