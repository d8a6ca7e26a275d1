orders: list
least: float

result: dict = {}
for order in orders:
    result[order["id"]] = order["total"]
