import csv
import sys


def main() -> int:
    rows = list(csv.DictReader(sys.stdin))
    print(len(rows), "rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
