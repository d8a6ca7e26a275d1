orders: list[dict]
least: float
result: list = {order["id"]: order["total"] for order in orders}
