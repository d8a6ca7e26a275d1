orders: list[dict]
least: float

names = sorted({order["customer"] for order in orders if order["total"] >= least})
result: list[str] = names
