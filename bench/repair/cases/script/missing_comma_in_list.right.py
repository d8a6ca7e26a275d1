import csv
import sys

COLUMNS = [
    ("region", str),
    ("amount", float),
    ("date", str),
]

for row in csv.DictReader(sys.stdin):
    try:
        print([convert(row[name]) for name, convert in COLUMNS])
    except ValueError:
        print("bad row")
