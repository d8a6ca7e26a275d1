# expect: completed refused_events= | run: policy=extractor builtins=safe
# Written in C, `strptime` imports a module of its own when it is first called.
import datetime
import time


def extract(path):
    when = datetime.datetime.strptime("2024-05-06", "%Y-%m-%d")
    return {"escaped": [] if time.strptime("2024", "%Y").tm_year == when.year else [str(when)]}
