"""Keep the paid orders of at least some total, the largest first."""

orders: list[dict]
least: float

kept = [order for order in orders if order["paid"] and order["total"] >= least]
print(f"{len(kept)} of {len(orders)} orders kept")

result: list[dict] = sorted(kept, key=lambda order: order["total"], reverse=True)
