import csv
import sys

count = 0


def handle(row):
    if row["region"] != "south":
        count += 1


for row in csv.DictReader(sys.stdin):
    handle(row)
print("not south:", count)
