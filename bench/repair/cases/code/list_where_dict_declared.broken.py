orders: list
least: float

result: dict = [(order["id"], order["total"]) for order in orders if order["total"] >= least]
