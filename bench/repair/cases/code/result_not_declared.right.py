orders: list
least: float

paid = [order for order in orders if order["total"] >= least]
result: list = sorted(paid, key=lambda order: order["total"], reverse=True)
