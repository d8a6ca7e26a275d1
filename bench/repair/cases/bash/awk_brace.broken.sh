set -euo pipefail
awk -F, 'NR > 1 { count[$1]++ } END { for (r in count) { print r, count[r] }' data/sales.csv | sort > data/counts.txt
cat data/counts.txt
