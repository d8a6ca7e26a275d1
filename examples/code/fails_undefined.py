orders: list[dict]
least: float
kept = [order for order in orders if order["paid"]]
result: str = json.dumps(kept_orders)
