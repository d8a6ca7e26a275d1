import csv
import sys

sums = {}
for row in csv.DictReader(sys.stdin):
    sums[row["region"]] = sums.get(row["region"], 0) + float(row["amount"])
for region, amount in sorted(sums.items()):
    print(f"{region}: {amount:.2f}")
