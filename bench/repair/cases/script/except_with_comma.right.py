import csv
import sys

total, bad = 0.0, 0
for row in csv.DictReader(sys.stdin):
    try:
        total += float(row["amount"])
    except ValueError as error:
        bad += 1
        print("skipped:", error)
print(round(total, 2), bad)
