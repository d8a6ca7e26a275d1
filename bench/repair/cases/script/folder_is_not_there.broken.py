import csv
import sys

rows = [row for row in csv.DictReader(sys.stdin) if row["region"] == "north"]
with open("output/north.csv", "w", newline="") as target:
    writer = csv.DictWriter(target, fieldnames=["region", "amount", "date"])
    writer.writeheader()
    writer.writerows(rows)
print("wrote", len(rows))
