import pandas as pd
from collections import Counter

orders: list
least: float

counts = Counter(order["customer"] for order in orders if order["total"] >= least)
result: dict = dict(counts)
