# expect: completed refused_events= | run: policy=default
# What an allowed module imports for itself is its own business, even when it is on the list of the refused.
import decimal
import random
import statistics


def extract(path):
    value = decimal.Decimal("1.5") + round(statistics.mean([1, 2, 3])) + random.Random(1).choice([1])
    return {"escaped": [] if value == decimal.Decimal("4.5") else [str(value)]}
