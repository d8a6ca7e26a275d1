set -euo pipefail

trim() {
  sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//' -e 's/[[:space:]]*;[[:space:]]*/;/g'
}

# Small letters for addresses, one line per address, the last one wins; what is no address goes aside.
trim < data/customers.txt | awk -F';' '
  BEGIN { OFS = ","; print "email", "name", "country" }
  NR == 1 { next }
  $1 !~ /^[^@]+@[^@]+$/ { print > "data/rejected.txt"; next }
  { last[tolower($1)] = $2 OFS toupper(substr($3, 1, 2)) }
  END { for (email in last) print email, last[email] }
' > tmp/unsorted.csv
{ head -n 1 tmp/unsorted.csv; tail -n +2 tmp/unsorted.csv | sort; } > tmp/customers.csv
wc -l < tmp/customers.csv
