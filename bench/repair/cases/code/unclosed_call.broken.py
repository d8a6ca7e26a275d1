orders: list
least: float

total = sum(order["total"] for order in orders
count = len([order for order in orders if order["total"] >= least])
result: dict = {"total": total, "count": count}
