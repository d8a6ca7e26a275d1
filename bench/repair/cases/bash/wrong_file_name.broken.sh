set -euo pipefail
sort -t, -k1,1 data/sales_data.csv > data/sorted.csv
head -n 2 data/sorted.csv
