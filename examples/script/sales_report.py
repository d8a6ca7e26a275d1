"""Read sales from standard input, one "region product amount" per line, and write a report as CSV."""

import csv
import sys
from collections import Counter
from decimal import Decimal

totals = Counter()
for number, line in enumerate(sys.stdin, start=1):
    try:
        region, product, amount = line.split()
        totals[region, product] += Decimal(amount)
    except (ValueError, ArithmeticError):
        print(f"line {number} is left out: {line.rstrip()}", file=sys.stderr)

with open("report.csv", "w", newline="") as file:
    report = csv.writer(file)
    report.writerow(["region", "product", "total"])
    for (region, product), total in sorted(totals.items()):
        report.writerow([region, product, f"{total:.2f}"])

print(f"{len(totals)} rows written")
