#!/usr/bin/env bash
# Give this checkout a RabbitMQ of its own, below .run/rabbitmq: on loopback, with the accounts and the queue of a cluster.
#
# Decides: what is installed, where the broker keeps its state, on which ports it listens, how it ends.
# Leaves to others: the queue and who may do what with it (deploy/rabbitmq/definitions.json).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
start_wait_s=180
stop_wait_s=30

usage() {
    cat <<TEXT
usage: rabbitmq.sh install
       rabbitmq.sh start|stop|kill|url [DIR [ROLE]]

  install  install rabbitmq-server, as root on a Debian-like system; else say so
  start    start the private broker, unless it runs; as root on a Debian-like system, install rabbitmq-server before
  stop     end the private broker and its port mapper, and wait until they are gone; its messages stay in DIR
  kill     end it as a crash would
  url      print the URL by which ROLE (gateway, node or management; gateway) reaches it

DIR is where it keeps its state (default: .run/rabbitmq in the checkout).
environment, read by start:
  DELIVERY_TIMEOUT_S  seconds after which a message that a node holds is given to another (default: 1800)
  MANAGEMENT          1: serve the management API on loopback, with an account that makes accounts
  TLS_ADDRESS         address at which it listens in addition, with TLS, for other machines
  TLS_FOLDER          folder with its ca.pem, gateway.pem and gateway.key
  DEFINITIONS         file with what it declares (default: deploy/rabbitmq/definitions.json)
TEXT
}

say() { printf 'rabbitmq: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# --- the broker's process ---------------------------------------------------------------------------------

# Print the pid in file $1 if it runs program $2 for our own state folder: pids are used again.
alive() {
    local pid
    [ -r "$1" ] && pid=$(tr -cd 0-9 <"$1") && [ -n "$pid" ] || return 1
    [ "$(basename "$(readlink "/proc/$pid/exe" 2>/dev/null)")" = "$2" ] || return 1
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qxF "ASSAYD_RABBITMQ=$state" && printf '%s' "$pid"
}

broker_pid() { alive "$state/pid" beam.smp; }
mapper_pid() { alive "$state/epmd.pid" epmd; }

wait_gone() {
    local deadline=$((SECONDS + $2))
    while [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do
        [ "$SECONDS" -le "$deadline" ] || return 1
        sleep 0.05
    done
}

end_process() {
    kill "-$2" "$1" 2>/dev/null || return 0
    wait_gone "$1" "$stop_wait_s" && return 0
    kill -KILL "$1" 2>/dev/null || return 0
    wait_gone "$1" 5
}

# --- what it is started with ------------------------------------------------------------------------------

# Write the settings: passwords and ports are drawn once, so that a broker that is started again is the same one.
write_settings() {
    mkdir -p "$state/home" "$state/log"
    chmod 0700 "$state"
    STATE=$state DEFINITIONS=${DEFINITIONS:-$root/deploy/rabbitmq/definitions.json} DELIVERY_TIMEOUT_S=${DELIVERY_TIMEOUT_S:-1800} python3 - <<'PYTHON'
import base64, contextlib, hashlib, json, os, pathlib, random, secrets, socket

state = pathlib.Path(os.environ["STATE"])

def write(name, text, mode=0o600):
    path = state / name
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)

def drawn(name, draw):
    kept = json.loads((state / name).read_text()) if (state / name).exists() else {}
    write(name, json.dumps({**draw(), **kept}))
    return json.loads((state / name).read_text())

def free_port():
    # Below the range from which the kernel takes ports for connections, so that nobody has it when the broker comes back.
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port := random.randrange(15000, 30000)))
            return port

ports = drawn("ports", lambda: {name: free_port() for name in ("amqp", "amqps", "distribution", "mapper", "management")})
passwords = drawn("passwords", lambda: {role: secrets.token_hex(24) for role in ("gateway", "node", "management")})
managed = os.environ.get("MANAGEMENT") == "1"
definitions = pathlib.Path(os.environ["DEFINITIONS"]).read_text()
for role, password in passwords.items():
    if role == "management":
        write("management.url", f"http://management:{password}@127.0.0.1:{ports['management']}\n")
    salt = secrets.token_bytes(4)
    hashed = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    definitions = definitions.replace(f"@{role.upper()}_PASSWORD_HASH@", hashed)
    if role == "management":
        accounts = hashed
    else:
        write(f"{role}.url", f"amqp://{role}:{password}@127.0.0.1:{ports['amqp']}/assayd\n")
if managed:
    document = json.loads(definitions)
    algorithm = "rabbit_password_hashing_sha256"
    document["users"].append(
        {"name": "management", "password_hash": accounts, "hashing_algorithm": algorithm, "tags": "administrator", "limits": {}}
    )
    definitions = json.dumps(document)
write("definitions.json", definitions)
if not (state / "home/.erlang.cookie").exists():
    write("home/.erlang.cookie", secrets.token_hex(24), 0o400)
write("enabled_plugins", "[rabbitmq_management].\n" if managed else "[].\n")
management = f"""\
management.tcp.ip = 127.0.0.1
management.tcp.port = {ports["management"]}
"""
encrypted = ""
if address := os.environ.get("TLS_ADDRESS"):
    folder = os.environ["TLS_FOLDER"]
    encrypted = f"""\
listeners.ssl.1 = {address}:{ports["amqps"]}
ssl_options.cacertfile = {folder}/ca.pem
ssl_options.certfile = {folder}/gateway.pem
ssl_options.keyfile = {folder}/gateway.key
"""
timeout_ms = int(os.environ["DELIVERY_TIMEOUT_S"]) * 1000
# The broker looks for overdue deliveries at each tick.
write("advanced.config", f"[{{rabbit, [{{channel_tick_interval, {min(60000, timeout_ms // 4)}}}]}}].\n")
write("rabbitmq.conf", f"""\
listeners.tcp.1 = 127.0.0.1:{ports["amqp"]}
num_acceptors.tcp = 2
load_definitions = {state}/definitions.json
consumer_timeout = {timeout_ms}
vm_memory_high_watermark.absolute = 512MiB
disk_free_limit.absolute = 50MB
raft.wal_max_size_bytes = 16777216
log.file.level = warning
log.console = false
{encrypted}{management if managed else ""}""")
# Sourced by rabbitmq-server; read by the shell here for the mapper.
write("environment", f"""\
export ASSAYD_RABBITMQ={state!s} HOME={state}/home
export ERL_EPMD_PORT={ports["mapper"]} ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_NODENAME=assayd@localhost RABBITMQ_DIST_PORT={ports["distribution"]} RABBITMQ_ALLOW_INPUT=
export RABBITMQ_CONFIG_FILE={state}/rabbitmq.conf RABBITMQ_ADVANCED_CONFIG_FILE={state}/advanced.config
export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_ENABLED_PLUGINS_FILE={state}/enabled_plugins
export RABBITMQ_MNESIA_BASE={state}/data RABBITMQ_LOG_BASE={state}/log RABBITMQ_PID_FILE={state}/server.pid
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {{127,0,0,1}} +S 2:2 +A 8 -noinput"
""")
PYTHON
}

# Runs in a session of its own: becomes the broker. What a caller holds open (make, flock, a test) is not kept.
serve() {
    local fd
    for fd in /proc/"$$"/fd/*; do
        fd=${fd##*/}
        if [ "$fd" -gt 2 ] && [ "$fd" -ne 255 ]; then eval "exec $fd>&-"; fi
    done
    # shellcheck source=/dev/null
    . "$state/environment"
    cd /
    epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
    echo "$!" >"$state/epmd.pid"
    # NOTIFY_SOCKET of whoever started us is not for the broker.
    unset NOTIFY_SOCKET
    echo "$$" >"$state/pid"
    # With input allowed, the script becomes the broker, and its pid stays the one that is on record.
    RABBITMQ_ALLOW_INPUT=1 exec /usr/lib/rabbitmq/bin/rabbitmq-server
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["amqp"])' "$state/ports")") 2>/dev/null; }

# --- verbs ------------------------------------------------------------------------------------------------

installed() { [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]; }

install() {
    if installed; then return; fi
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        # Without it, the tests that need it are not among those that run.
        say "there is no RabbitMQ (Debian: apt-get install rabbitmq-server); tests of a cluster need it"
        return
    fi
    "$here/packages.sh" rabbitmq-server 9>&-
}

start() {
    if broker_pid >/dev/null && answers; then say "runs already (pid $(broker_pid))"; return; fi
    installed || "$here/packages.sh" rabbitmq-server 9>&- || exit 1
    end_all TERM
    write_settings
    local began=$SECONDS
    STATE=$state setsid --fork bash "$here/rabbitmq.sh" _serve "$state" </dev/null >"$state/log/start.log" 2>&1 9>&-
    until broker_pid >/dev/null && answers; do
        if [ "$SECONDS" -gt $((began + start_wait_s)) ] || { [ "$SECONDS" -gt $((began + 3)) ] && ! broker_pid >/dev/null; }; then
            tail -n 15 "$state/log/start.log" "$state"/log/*.log >&2
            end_all KILL
            die "the broker did not answer within $((SECONDS - began)) s; its logs are in $state/log"
        fi
        sleep 0.1
    done
    say "started (pid $(broker_pid), $((SECONDS - began)) s); its state is in $state; 'rabbitmq.sh stop' ends it"
}

end_all() {
    local pid
    if pid=$(broker_pid); then end_process "$pid" "$1"; fi
    if pid=$(mapper_pid); then end_process "$pid" "$1"; fi
    rm -f -- "$state/pid" "$state/epmd.pid"
}

stop() { end_all TERM; say "stopped"; }
crash() { end_all KILL; say "killed"; }

url() {
    case "$1" in gateway | node | management) ;; *) die "ROLE is '$1': say gateway, node or management" ;; esac
    [ -r "$state/$1.url" ] || die "there is no broker in $state: rabbitmq.sh start"
    cat "$state/$1.url"
}

# Run a verb while no other call of this script changes anything in the same folder.
locked() {
    mkdir -p "$state"
    exec 9>"$state/lock"
    flock -w 300 9 || die "another rabbitmq.sh holds $state/lock for more than 5 minutes"
    "$@"
}

state=$(realpath -m -- "${2:-$root/.run/rabbitmq}")
case "${1:-}" in
    install) install ;;
    start) locked start ;;
    stop) locked stop ;;
    kill) locked crash ;;
    url) url "${3:-gateway}" ;;
    _serve) serve ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
