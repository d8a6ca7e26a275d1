orders: list
least: float

paid = [order for order in orders if order["total"] >= least]
result = sorted(paid, key=lambda order: order["total"], reverse=True)
