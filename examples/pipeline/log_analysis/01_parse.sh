set -euo pipefail

# address - user [time] "method path protocol" status bytes
echo 'address,hour,path,status,bytes' > tmp/requests.csv
awk '
  match($0, /\[[^]]*\]/) {
    time = substr($0, RSTART + 1, RLENGTH - 2)
    split(time, part, ":")
    status = $(NF - 1)
    bytes = ($NF == "-") ? 0 : $NF
    printf "%s,%s,%s,%s,%s\n", $1, part[2], $7, status, bytes
  }
' data/access.log >> tmp/requests.csv

for status in 200 404 500; do
  count=$(cut -d, -f4 tmp/requests.csv | grep -c "^$status\$" || true)
  echo "$status: $count"
done
