#!/usr/bin/env bash
# Give this checkout a server that speaks S3, for tests: on loopback, with a bucket and keys, its state below .run/s3.
#
# Decides: what is installed and where, how a server is started and ended, which bucket and keys there are.
# KIND is one of two that have no code in common: moto (Python, keeps all in memory) and s3rver (Node, keeps files).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
programs=$root/.run/cache/s3
start_wait_s=60
stop_wait_s=10

usage() {
    cat <<TEXT
usage: s3.sh install
       s3.sh start|stop|kill KIND [DIR]

  install  fetch both servers as they are locked (requirements/moto.txt, deploy/dev/s3rver), below .run/cache/s3
  start    start the server KIND, unless it runs; fetch it before
  stop     end it, and wait until it is gone
  kill     end it as a crash would

KIND is moto or s3rver. DIR is where its state is (default: .run/s3/KIND in the checkout). There, start writes the files
endpoint, access_key and secret_key; the bucket is "assayd".
TEXT
}

say() { printf 's3: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# --- installing -------------------------------------------------------------------------------------------

install_moto() {
    local venv=$programs/moto
    [ ! "$venv/.ready" -nt "$root/requirements/moto.txt" ] || return 0
    say "fetching moto (the first time takes about a minute)"
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes -r "$root/requirements/moto.txt"
    touch "$venv/.ready"
}

install_s3rver() {
    local folder=$programs/s3rver
    command -v npm >/dev/null 2>&1 || "$here/packages.sh" nodejs npm
    [ ! "$folder/.ready" -nt "$here/s3rver/package-lock.json" ] || return 0
    say "fetching s3rver"
    mkdir -p "$folder"
    cp "$here/s3rver/package.json" "$here/s3rver/package-lock.json" "$folder"
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
    touch "$folder/.ready"
}

# --- the server's process ---------------------------------------------------------------------------------

# Print its pid if that process was started for our own state folder: pids are used again.
server_pid() {
    local pid
    [ -r "$state/pid" ] && pid=$(tr -cd 0-9 <"$state/pid") && [ -n "$pid" ] || return 1
    tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qxF "ASSAYD_S3=$state" && printf '%s' "$pid"
}

wait_gone() {
    local deadline=$((SECONDS + $2))
    while [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do
        [ "$SECONDS" -le "$deadline" ] || return 1
        sleep 0.05
    done
}

end() {
    local pid signal
    if pid=$(server_pid); then
        for signal in "$@"; do
            kill "-$signal" "$pid" 2>/dev/null || break
            if wait_gone "$pid" "$stop_wait_s"; then break; fi
        done
    fi
    rm -f -- "$state/pid"
}

# Drawn once, so that a server that is started again is where it was; below the range of outgoing connections.
write_port() {
    [ ! -s "$state/port" ] || return 0
    python3 - >"$state/port" <<'PYTHON'
import contextlib, random, socket
while True:
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.bind(("127.0.0.1", port := random.randrange(15000, 30000)))
        print(port)
        break
PYTHON
    printf 'http://127.0.0.1:%s\n' "$(cat "$state/port")" >"$state/endpoint"
}

# Runs in a session of its own: becomes the server.
serve() {
    cd "$state"
    case "$kind" in
        # The three requests that make the account need no key; each one after them does.
        moto) INITIAL_NO_AUTH_ACTION_COUNT=3 exec "$programs/moto/bin/python" -m moto.server -H 127.0.0.1 -p "$(cat port)" ;;
        # The token that leads to the next page of a list is enciphered with DES.
        s3rver) exec node --openssl-legacy-provider "$programs/s3rver/node_modules/s3rver/bin/s3rver.js" --directory "$state/data" \
            --address 127.0.0.1 --port "$(cat port)" --configure-bucket assayd --silent ;;
    esac
}

# Give the running server its account and bucket.
furnish() {
    if [ "$kind" = s3rver ]; then
        # The only account that it knows.
        printf 'S3RVER\n' >"$state/access_key"
        printf 'S3RVER\n' >"$state/secret_key"
        return
    fi
    STATE=$state "$programs/moto/bin/python" - <<'PYTHON'
import json, os, pathlib, urllib.request
import boto3

state = pathlib.Path(os.environ["STATE"])
endpoint = (state / "endpoint").read_text().strip()
# With the same seed, a server that is started again draws the same keys.
urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/seed?a=42", method="POST")).close()
settings = {"endpoint_url": endpoint, "region_name": "us-east-1"}
unknown = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
account = boto3.client("iam", **settings, **unknown)
account.create_user(UserName="assayd")
key = account.create_access_key(UserName="assayd")["AccessKey"]
allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
account.put_user_policy(
    UserName="assayd", PolicyName="bundles", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
)
known = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
boto3.client("s3", **settings, **known).create_bucket(Bucket="assayd")
(state / "access_key").write_text(key["AccessKeyId"] + "\n")
(state / "secret_key").write_text(key["SecretAccessKey"] + "\n")
PYTHON
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$(cat "$state/port")") 2>/dev/null; }

# --- verbs ------------------------------------------------------------------------------------------------

start() {
    if server_pid >/dev/null && [ -s "$state/secret_key" ]; then say "$kind runs already (pid $(server_pid))"; return; fi
    (umask 022; exec 9>"$programs.lock"; flock -w 600 9; "install_$kind")
    end TERM KILL
    write_port
    ASSAYD_S3=$state setsid --fork bash -c 'echo "$$" >"$1/pid"; exec bash "$2" _serve "$3" "$1"' s3 "$state" "$here/s3.sh" "$kind" \
        </dev/null >"$state/log" 2>&1 9>&-
    local deadline=$((SECONDS + start_wait_s)) grace=$((SECONDS + 5))
    until server_pid >/dev/null && answers; do
        if [ "$SECONDS" -gt "$deadline" ] || { [ "$SECONDS" -gt "$grace" ] && ! server_pid >/dev/null; }; then
            tail -n 15 "$state/log" >&2
            end KILL
            die "$kind did not answer; its log is $state/log"
        fi
        sleep 0.05
    done
    furnish 9>&-
    say "started $kind at $(cat "$state/endpoint") (pid $(server_pid)); 's3.sh stop $kind' ends it"
}

stop() { end TERM KILL; say "stopped $kind"; }
crash() { end KILL; say "killed $kind"; }

# Run a verb while no other call of this script changes anything in the same folder.
locked() {
    mkdir -p "$state" "$programs"
    chmod 0700 "$state"
    exec 9>"$state/lock"
    flock -w 300 9 || die "another s3.sh holds $state/lock for more than 5 minutes"
    "$@"
}

kind=${2:-}
case "${1:-}" in
    start | stop | kill | _serve)
        case "$kind" in moto | s3rver) ;; *) die "KIND is '$kind': say moto or s3rver" ;; esac ;;
esac
state=$(realpath -m -- "${3:-$root/.run/s3/$kind}")
case "${1:-}" in
    install) mkdir -p "$programs"; install_moto; install_s3rver ;;
    start) locked start ;;
    stop) locked stop ;;
    kill) locked crash ;;
    _serve) serve ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
