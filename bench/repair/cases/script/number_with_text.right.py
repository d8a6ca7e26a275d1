import csv
import sys

sums = {}
for row in csv.DictReader(sys.stdin):
    try:
        amount = float(row["amount"])
    except ValueError:
        continue
    sums[row["region"]] = sums.get(row["region"], 0) + amount
for region, amount in sorted(sums.items()):
    print(f"{region}: {amount:.2f}")
