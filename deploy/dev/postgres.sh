#!/usr/bin/env bash
# A private PostgreSQL for this checkout: its own cluster, accounts and socket below .run/postgres, and nothing of the system's.
#
# Decides: what is installed, how the server is started and ended, which accounts there are and what each may.
# Leaves to others: the tables, which the owner's account makes (assayd.store.migrations).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
self=$here/$(basename "${BASH_SOURCE[0]}")
root=$(cd "$here/../.." && pwd -P)
start_wait_s=60
stop_wait_s=30
# A socket address holds 108 bytes, ".s.PGSQL.5432" included.
longest_state_path=85

usage() {
    cat <<TEXT
usage: postgres.sh install
       postgres.sh start [DIR [OPTION…]]
       postgres.sh stop [DIR]
       postgres.sh url [DIR] [owner|gateway|operator] [DATABASE]

  install  install what is missing, as root on a Debian-like system; else say what
  start    start the server whose state is in DIR (default: .run/postgres), after installing what is missing;
           OPTIONs are the server's (-c fsync=off). Does nothing while it runs
  stop     end it and wait until it is gone; DIR stays
  url      print the URL of an account's database (default: gateway, assayd)

The server never runs as root, but as the packages' user "postgres" when root starts it. It listens on a Unix socket, where
root and who started it are known by their user; with POSTGRES_TLS=1 also on loopback, with TLS and passwords.

accounts: owner     owns the database "assayd": for migrations
          gateway   reads and writes the rows of the owner's tables, and can change no table
          operator  makes databases and ends servers' sessions: for tests
TEXT
}

say() { printf 'postgres: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

programs() { local found=(/usr/lib/postgresql/*/bin); printf '%s' "${found[-1]}"; }
server_user() { if [ "$(id -u)" -eq 0 ]; then echo postgres; else id -un; fi; }

# Where sockets are, as seen by clients: the state folder, or a short one when that is too long.
socket_dir() { if [ -f "$state/socket-dir" ]; then cat "$state/socket-dir"; else printf '%s/run' "$state"; fi; }

# The port that TLS listens on; it is also part of the socket's name.
port() { if [ -f "$state/port" ]; then cat "$state/port"; else echo 5432; fi; }

# The state folder as the server sees it. Its user may have no way there (a checkout below /root): then it is mounted
# for the server alone where the packages' user has its home.
inside() {
    if as_server test -x "$state/data" 2>/dev/null; then printf '%s' "$state"; else printf '/var/lib/postgresql'; fi
}

as_server() {
    if [ "$(id -u)" -eq 0 ]; then setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; else "$@"; fi
}

# Become a program as the server's user, where it sees the state folder.
in_place() {
    local place
    place=$(inside)
    cd /
    if [ "$place" != "$state" ]; then mount --bind "$state" "$place"; fi
    if [ "$(id -u)" -ne 0 ]; then exec "$@"; fi
    exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"
}

# Say what a command begins with that becomes a program in that place.
placing() {
    if [ "$(inside)" != "$state" ]; then printf '%s\n' unshare --mount --propagation slave --; fi
    printf '%s\n' bash "$self" _in_place "$state"
}

# --- making -----------------------------------------------------------------------------------------------

install_packages() {
    [ ! -x "$(programs)/initdb" ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        say "PostgreSQL is not installed, and only root on a Debian-like system can do that here; install the package postgresql"
        return 1
    fi
    # No cluster of the system's own: this one is private.
    install -D -m 0644 /dev/stdin /etc/postgresql-common/createcluster.d/assayd.conf <<<'create_main_cluster = false'
    "$here/packages.sh" postgresql 9>&-
}

make_folders() {
    mkdir -p "$state/data" "$state/run"
    chmod 0755 "$state" "$state/run"
    chmod 0700 "$state/data"
    if [ "${#state}" -gt "$longest_state_path" ] && { [ ! -f "$state/socket-dir" ] || [ ! -d "$(socket_dir)" ]; }; then
        mktemp -d /tmp/assayd-postgres.XXXXXX >"$state/socket-dir"
        chmod 0755 "$(socket_dir)"
    fi
    chown "$(server_user)" "$state/data" "$(socket_dir)"
}

make_cluster() {
    [ ! -f "$state/data/PG_VERSION" ] || return 0
    local within
    mapfile -t within < <(placing)
    "${within[@]}" "$(programs)/initdb" --pgdata="$(inside)/data" --username=postgres --auth=reject --encoding=UTF8 \
        --locale=C.UTF-8 --no-sync --no-instructions >"$state/initdb.log" 2>&1 9>&- ||
        { cat "$state/initdb.log" >&2; die "initdb failed"; }
}

# Who may come in. On the socket a user is who the kernel says; a password is asked for on TLS only.
write_access() {
    local account
    {
        echo "local all all peer map=private"
        echo "hostssl all assayd_owner,assayd_gateway 127.0.0.1/32 scram-sha-256"
    } >"$state/data/pg_hba.conf"
    for account in postgres assayd_owner assayd_gateway assayd_operator; do
        printf 'private %s %s\n' "$(id -un)" "$account"
    done >"$state/data/pg_ident.conf"
    printf 'private postgres postgres\n' >>"$state/data/pg_ident.conf"
}

make_certificate() {
    [ "${POSTGRES_TLS:-}" = 1 ] && [ ! -f "$state/port" ] || return 0
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$state/server.key" -out "$state/server.crt" 2>/dev/null
    chmod 0600 "$state/server.key"
    chown "$(server_user)" "$state/server.key"
    local account
    for account in owner gateway; do (umask 077; openssl rand -hex 32 >"$state/$account.password"); done
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' >"$state/port"
}

options() {
    printf '%s\n' -c "port=$(port)" -c max_connections=200 -c shared_buffers=64MB -c log_min_messages=warning
    if [ ! -f "$state/port" ]; then
        printf '%s\n' -c listen_addresses=
    else
        printf '%s\n' -c listen_addresses=127.0.0.1 -c ssl=on -c ssl_min_protocol_version=TLSv1.2 \
            -c "ssl_cert_file=$(inside)/server.crt" -c "ssl_key_file=$(inside)/server.key"
    fi
}

# --- the server's process ---------------------------------------------------------------------------------

server_pid() {
    local pid
    [ -r "$state/data/postmaster.pid" ] || return 1
    pid=$(head -n 1 "$state/data/postmaster.pid" | tr -cd 0-9)
    # Its folder is our own, wherever it sees it: a pid may be another program's by now.
    [ -n "$pid" ] && [ "/proc/$pid/cwd" -ef "$state/data" ] && printf '%s' "$pid"
}

# What a server that was killed leaves for a moment, or for as long as a statement takes; the next would not start beside it.
end_orphans() {
    local process
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$state/data" ] && kill -QUIT "${process#/proc/}" 2>/dev/null; then
            wait_gone "${process#/proc/}" 10 || true
        fi
    done
    rm -f -- "$state/data/postmaster.pid" "$(socket_dir)"/.s.PGSQL.*
}

answers() { "$(programs)/pg_isready" -q -h "$(socket_dir)" -p "$(port)"; }
ask() { PGOPTIONS="-c client_min_messages=warning" "$(programs)/psql" -X -q -A -t -v ON_ERROR_STOP=1 -h "$(socket_dir)" -p "$(port)" -U postgres "$@"; }

launch() {
    local sockets within server_options
    sockets=$(socket_dir)
    [ "$sockets" != "$state/run" ] || sockets=$(inside)/run
    mapfile -t within < <(placing)
    mapfile -t server_options < <(options)
    end_orphans
    setsid --fork "${within[@]}" "$(programs)/postgres" -D "$(inside)/data" -c "unix_socket_directories=$sockets" \
        "${server_options[@]}" "$@" </dev/null >"$state/postgres.log" 2>&1 9>&-
    local deadline=$((SECONDS + start_wait_s)) grace=$((SECONDS + 5))
    until server_pid >/dev/null && answers; do
        if [ "$SECONDS" -gt "$deadline" ] || { [ "$SECONDS" -gt "$grace" ] && ! server_pid >/dev/null; }; then
            tail -n 15 "$state/postgres.log" >&2
            die "the server did not start; its log is $state/postgres.log"
        fi
        sleep 0.05
    done
}

# Accounts with the least that each needs; asked again, this changes nothing but the passwords back to those of the files.
make_accounts() {
    local account
    for account in owner gateway operator; do
        [ -n "$(ask -d postgres -c "SELECT 1 FROM pg_roles WHERE rolname = 'assayd_$account'")" ] ||
            ask -d postgres -c "CREATE ROLE assayd_$account LOGIN"
        if [ -f "$state/$account.password" ]; then
            ask -d postgres <<<"ALTER ROLE assayd_$account PASSWORD '$(cat "$state/$account.password")'"
        fi
    done
    ask -d postgres -c "ALTER ROLE assayd_operator CREATEDB; GRANT assayd_owner, pg_signal_backend TO assayd_operator"
    [ -n "$(ask -d postgres -c "SELECT 1 FROM pg_database WHERE datname = 'assayd'")" ] || make_database assayd
}

make_database() {
    ask -d postgres -c "CREATE DATABASE $1 OWNER assayd_owner"
    ask -d "$1" <<SQL
REVOKE ALL ON DATABASE $1 FROM PUBLIC;
GRANT CONNECT ON DATABASE $1 TO assayd_gateway;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) FROM PUBLIC;
GRANT ALL ON SCHEMA public TO assayd_owner;
GRANT USAGE ON SCHEMA public TO assayd_gateway;
ALTER DEFAULT PRIVILEGES FOR ROLE assayd_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO assayd_gateway;
ALTER DEFAULT PRIVILEGES FOR ROLE assayd_owner IN SCHEMA public GRANT USAGE ON SEQUENCES TO assayd_gateway;
SQL
}

# --- verbs ------------------------------------------------------------------------------------------------

start() {
    if server_pid >/dev/null && answers; then return; fi
    install_packages || exit 1
    make_folders
    make_certificate
    make_cluster
    write_access
    launch "$@"
    make_accounts
    say "started at $(socket_dir) (pid $(server_pid)); 'postgres.sh stop' ends it"
}

stop() {
    local pid signal
    if ! pid=$(server_pid); then return; fi
    for signal in INT QUIT KILL; do
        kill "-$signal" "$pid" 2>/dev/null || break
        if wait_gone "$pid" "$stop_wait_s"; then break; fi
    done
    if [ -f "$state/socket-dir" ]; then rm -rf -- "$(socket_dir)"; rm -f "$state/socket-dir"; fi
    say "stopped"
}

wait_gone() {
    local deadline=$((SECONDS + $2))
    while [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do
        [ "$SECONDS" -le "$deadline" ] || return 1
        sleep 0.05
    done
}

url() {
    local account=${1:-gateway} database=${2:-assayd}
    if [ -f "$state/$account.password" ] && [ "${POSTGRES_TLS:-}" = 1 ]; then
        printf 'postgresql+psycopg://assayd_%s:%s@127.0.0.1:%s/%s?sslmode=verify-full&sslrootcert=%s\n' \
            "$account" "$(cat "$state/$account.password")" "$(port)" "$database" "$state/server.crt"
    else
        printf 'postgresql+psycopg://assayd_%s@/%s?host=%s&port=%s\n' "$account" "$database" "$(socket_dir)" "$(port)"
    fi
}

# Run a verb while no other call changes anything of the same state.
locked() {
    mkdir -p "$state"
    exec 9>"$state/lock"
    flock -w 300 9 || die "another postgres.sh holds $state/lock for more than 5 minutes"
    "$@"
}

verb=${1:-}
[ "$#" -eq 0 ] || shift
state=${1:-$root/.run/postgres}
[ "$#" -eq 0 ] || shift
case "$state" in /*) ;; *) state=$PWD/$state ;; esac
case "$verb" in
    # Without it, the tests that need it are not among those that run.
    install) install_packages || true ;;
    start | stop) locked "$verb" "$@" ;;
    url) url "$@" ;;
    _in_place) in_place "$@" ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
