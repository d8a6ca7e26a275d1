import csv
import sys


def main():
    regions = {}
    for row in csv.DictReader(sys.stdin):
        name = row["region"]
	regions[name] = regions.get(name, 0) + 1
    for name in sorted(regions):
        print(name, regions[name])


main()
