orders: list
least: float

best = None
for order in orders:
    if order["total"] >= least and (best is None or order["total"] > best["total"]):
        best = order
result: dict = {"best": best}
