import sys

rows = sys.stdin.read().splitlines()
if not rows:
    print("nothing to do", file=sys.stderr)
    sys.exit(3)
