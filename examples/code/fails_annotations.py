least: any
kept = [order for order in orders if order["total"] >= least]
result = sorted(kept, key=lambda order: order["id"])
