set -euo pipefail
cut -d, -f1 data/sales.csv | python3 -c 'import sys; print(sys.stdin.read().upper(), end="")' | sort -u > data/regions.txt
cat data/regions.txt
