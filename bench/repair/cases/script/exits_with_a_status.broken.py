import csv
import sys


def main() -> int:
    rows = list(csv.DictReader(sys.stdin))
    print(len(rows), "rows")
    return len(rows)


if __name__ == "__main__":
    sys.exit(main())
