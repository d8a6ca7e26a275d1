import pandas as pd

orders: list
least: float

frame = pd.DataFrame(orders)
frame = frame[frame["total"] >= least]
result: dict = frame.groupby("customer")["total"].sum().to_dict()
