import pandas as pd

orders: list[dict]
least: float
result: float = float(pd.DataFrame(orders)["total"].sum())
