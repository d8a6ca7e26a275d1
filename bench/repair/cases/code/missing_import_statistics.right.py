import statistics

orders: list
least: float

amounts = [order["total"] for order in orders if order["total"] >= least]
result: dict = {
    "mean": round(statistics.mean(amounts), 2),
    "median": statistics.median(amounts),
}
