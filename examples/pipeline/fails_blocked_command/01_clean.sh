set -euo pipefail
awk -F, 'NR == 1 || $4 + 0 > 0' data/sales.csv > tmp/clean.csv
rm data/sales.csv
