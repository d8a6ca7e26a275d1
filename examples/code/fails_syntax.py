orders: list[dict]
result: list = [order["id"] for order in orders
