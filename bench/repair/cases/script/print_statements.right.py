import csv
import sys

rows = list(csv.DictReader(sys.stdin))
print("rows:", len(rows))
regions = set()
for row in rows:
    regions.add(row["region"])
print("regions: %s" % ", ".join(sorted(regions)))
