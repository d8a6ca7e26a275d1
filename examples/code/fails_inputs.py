orders: dict
least: int
result: int = len(orders)
