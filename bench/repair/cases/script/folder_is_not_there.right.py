import csv
import os
import sys

rows = [row for row in csv.DictReader(sys.stdin) if row["region"] == "north"]
os.makedirs("output", exist_ok=True)
with open("output/north.csv", "w", newline="") as target:
    writer = csv.DictWriter(target, fieldnames=["region", "amount", "date"])
    writer.writeheader()
    writer.writerows(rows)
print("wrote", len(rows))
