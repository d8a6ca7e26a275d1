orders: List[Dict]
least: float

names = sorted({order["customer"] for order in orders if order["total"] >= least})
result: List[str] = names
