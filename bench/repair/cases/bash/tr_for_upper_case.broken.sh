set -euo pipefail
cut -d, -f1 data/sales.csv | tr 'a-z' 'A-Z' | sort -u > data/regions.txt
cat data/regions.txt
