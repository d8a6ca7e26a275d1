# expect: timeout | run: deadline_s=0.5
import re


def extract(path):
    return re.match(r"(a+)+$", "a" * 60 + "b")
