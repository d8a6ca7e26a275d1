#!/bin/bash
set -euo pipefail

awk -F, 'NR > 1 && $2 != "" { sum[$1] += $2 } END { for (r in sum) print r "," sum[r] }' data/sales.csv | sort > tmp/sums.csv
cp tmp/sums.csv data/sums.csv
rm tmp/sums.csv
cat data/sums.csv
