orders: list
least: float

result: dict = {}
for order in orders:
    if order["amount"] >= least:
        result[order["id"]] = order["amount"]
