awk -F, 'NR == 1 || $4 + 0 > 0' data/sales.csv > tmp/clean.csv
echo "waiting for more"
until grep -q total tmp/clean.csv; do :; done
