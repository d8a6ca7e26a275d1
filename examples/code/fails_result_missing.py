orders: list[dict]
least: float
for order in orders:
    if order["total"] > 1000 * least:
        result: dict = order
