set -euo pipefail
cut -d, -f1 data/sales.csv | awk '{ print toupper($0) }' | sort -u > data/regions.txt
cat data/regions.txt
