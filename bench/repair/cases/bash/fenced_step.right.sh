set -euo pipefail
awk -F, '$2 + 0 > 50' data/sales.csv > data/large.csv
wc -l < data/large.csv
