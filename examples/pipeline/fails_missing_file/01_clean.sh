set -euo pipefail
cat data/sales_2026.csv > tmp/clean.csv
