#!/usr/bin/env bash
# Give this checkout a container engine: the one that answers already, or a private one under .run/engine/.
#
# Decides: which engine is used, and what is installed and started when there is none.
# Leaves to others: images (assayd.imaging) and everything that is asked of the engine.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
self=$here/$(basename "${BASH_SOURCE[0]}")
# shellcheck source=deploy/dev/cgroups.sh
. "$here/cgroups.sh"
root=$(cd "$here/../.." && pwd -P)
state=${ENGINE_DIR:-$root/.run/engine}
lock=$state.lock
data_root=$state/data
pidfile=$state/dockerd.pid
log=$state/dockerd.log
start_wait_s=60
stop_wait_s=40
# A socket address holds 108 bytes; the longest name that the engine makes below its exec-root has 37.
longest_state_path=64

usage() {
    cat <<TEXT
usage: engine.sh start|stop|status|socket

  start   use the engine that answers (DOCKER_HOST, then the default one); if there is none and this is
          root on a Debian-like system, install the distribution's docker.io and start a private engine
          with all its state under .run/engine/
  stop    end the private engine and wait until it is gone; touches no other engine
  status  say which engine is in use; exit 0 if one answers, 3 if none does
  socket  print the value for DOCKER_HOST; exit 3 if no engine answers

environment:
  DOCKER_HOST         an engine of your own: if it answers, it is used and nothing is started
  ENGINE_DIR   where the private engine keeps its state (default: .run/engine in the checkout)
TEXT
}

say() { printf 'engine: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# --- which engine -----------------------------------------------------------------------------------------

# The folder of sockets and of the exec-root: the state folder, or a short one when that is too long.
run_dir() {
    if [ "${#state}" -le "$longest_state_path" ]; then printf '%s' "$state"
    elif [ -f "$state/run-dir" ]; then cat "$state/run-dir"
    fi
}

make_run_dir() {
    mkdir -p "$state"
    chmod 0700 "$state"
    if [ -z "$(run_dir)" ] || [ ! -d "$(run_dir)" ]; then
        local base=/run
        [ -w "$base" ] || base=/tmp
        mktemp -d "$base/assayd-engine.XXXXXX" >"$state/run-dir"
        say "the checkout's path is too long for a socket, which is therefore in $(run_dir)"
    fi
}

private_host() { printf 'unix://%s/docker.sock' "$(run_dir)"; }

# True if the engine at $1 answers; an empty $1 means the client's default.
answers() {
    if command -v docker >/dev/null 2>&1; then
        # `docker info` of some versions exits 0 without a server; --format forces it to need one.
        DOCKER_HOST=$1 timeout 15 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
    else
        ping_socket "${1:-unix:///var/run/docker.sock}"
    fi
}

# The same question without a client program.
ping_socket() {
    timeout 15 python3 - "${1#unix://}" >/dev/null 2>&1 <<'PYTHON'
import socket, sys
with socket.socket(socket.AF_UNIX) as engine:
    engine.settimeout(10)
    engine.connect(sys.argv[1])
    engine.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
    sys.exit(b" 200 " not in engine.recv(64))
PYTHON
}

# The address behind the client's default: a context may have moved it.
default_host() {
    local host=
    if command -v docker >/dev/null 2>&1; then
        host=$(env -u DOCKER_HOST docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null || true)
    fi
    printf '%s' "${host:-unix:///var/run/docker.sock}"
}

# Print the address of the engine in use: an explicit one, our own, the default one, in that order.
find_host() {
    if [ -n "${DOCKER_HOST:-}" ] && answers "$DOCKER_HOST"; then printf '%s\n' "$DOCKER_HOST"
    elif private_pid >/dev/null && answers "$(private_host)"; then printf '%s\n' "$(private_host)"
    elif answers ''; then default_host; echo
    else return 1
    fi
}

# --- the private engine's process -------------------------------------------------------------------------

# True if process $1 runs a program called $2 and names our own folder $3 in its arguments.
is_ours() {
    [ -r "/proc/$1/cmdline" ] || return 1
    [ "$(basename "$(readlink "/proc/$1/exe" 2>/dev/null)" | cut -d' ' -f1)" = "$2" ] || return 1
    tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qF -- "$3"
}

# Print the processes for which is_ours holds.
ours() {
    local process
    for process in /proc/[0-9]*; do
        process=${process#/proc/}
        if is_ours "$process" "$1" "$2"; then echo "$process"; fi
    done
}

private_pid() {
    local pid
    [ -r "$pidfile" ] || return 1
    pid=$(tr -cd 0-9 <"$pidfile")
    [ -n "$pid" ] && is_ours "$pid" dockerd "--pidfile=$pidfile" && printf '%s' "$pid"
}

# Runs as `engine.sh _serve` in a session and a mount namespace of its own; becomes dockerd.
serve() {
    local fd
    for fd in /proc/"$$"/fd/*; do
        fd=${fd##*/}
        # 255 is bash's own; everything else above 2 belongs to whoever called us (make, flock, a test).
        if [ "$fd" -gt 2 ] && [ "$fd" -ne 255 ]; then eval "exec $fd>&-"; fi
    done
    mount_cgroups
    cd /
    unset DOCKER_HOST
    # No bridge, no firewall rule, no forwarding: containers have --network=none, the host's network stays as it is.
    # The OOM score stays 0, because lowering it needs CAP_SYS_RESOURCE, which the machine may not give.
    exec dockerd --config-file="$state/daemon.json" --host="$(private_host)" --group="$(id -g)" \
        --data-root="$data_root" --exec-root="$(run_dir)/exec" --pidfile="$pidfile" \
        --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --userland-proxy=false \
        --exec-opt native.cgroupdriver=cgroupfs --oom-score-adjust=0 --shutdown-timeout=5 --log-level=warn
}

launch() {
    make_run_dir
    # What a dockerd left behind that was killed would keep the next one from starting.
    end_private
    mkdir -p "$data_root" "$(run_dir)/exec"
    echo '{}' >"$state/daemon.json"
    ENGINE_DIR=$state setsid --fork unshare --mount --propagation slave -- \
        bash "$self" _serve </dev/null >"$log" 2>&1 9>&-
    wait_until_it_answers
}

wait_until_it_answers() {
    local deadline=$((SECONDS + start_wait_s)) grace=$((SECONDS + 5))
    until private_pid >/dev/null && answers "$(private_host)"; do
        if [ "$SECONDS" -gt "$grace" ] && [ -z "$(ours dockerd "--pidfile=$pidfile")" ]; then
            tail -n 15 "$log" >&2
            die "the private engine ended at once; its log is $log"
        fi
        if [ "$SECONDS" -gt "$deadline" ]; then
            tail -n 15 "$log" >&2
            end_private
            die "the private engine did not answer within $start_wait_s s; its log is $log"
        fi
        sleep 0.1
    done
}

# --- installing -------------------------------------------------------------------------------------------

require_root_on_debian() {
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then return; fi
    say "no container engine answers, and a private one can be started only by root on a Debian-like system"
    say "what to do: install Docker Engine (Debian: apt-get install docker.io), rootless or with access for you,"
    die "and set DOCKER_HOST when it does not listen on the default socket"
}

# --- ending -----------------------------------------------------------------------------------------------

wait_gone() {
    local deadline=$((SECONDS + $2))
    while [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; do
        [ "$SECONDS" -le "$deadline" ] || return 1
        sleep 0.1
    done
}

# Ask, wait, then force; $1 is checked to be ours by the caller.
end_process() {
    kill -TERM "$1" 2>/dev/null || return 0
    wait_gone "$1" "$2" && return 0
    kill -KILL "$1" 2>/dev/null || return 0
    wait_gone "$1" 5
}

# End dockerd, then what it should have ended itself: its containerd, the shims of that, and their containers.
end_private() {
    local pid exec_root
    exec_root=$(run_dir)/exec
    if pid=$(private_pid); then
        kill_containers
        end_process "$pid" "$stop_wait_s"
    fi
    # A dockerd that is still starting has no pidfile yet.
    for pid in $(ours dockerd "--pidfile=$pidfile"); do end_process "$pid" "$stop_wait_s"; done
    for pid in $(ours containerd "$exec_root/"); do end_process "$pid" 10; done
    for pid in $(ours containerd-shim-runc-v2 "$exec_root/"); do end_shim "$pid"; done
    rm -rf -- "$pidfile" "$(run_dir)/docker.sock" "$exec_root"
}

# Containers are throwaway; left to itself, dockerd gives each of them ten seconds to end.
kill_containers() {
    command -v docker >/dev/null 2>&1 || return 0
    local running
    running=$(DOCKER_HOST=$(private_host) timeout 10 docker ps -q 2>/dev/null) || return 0
    # shellcheck disable=SC2086
    [ -z "$running" ] || DOCKER_HOST=$(private_host) timeout 20 docker kill $running >/dev/null 2>&1 || true
}

# A shim that is killed leaves its container running, so the container goes first.
end_shim() {
    local status
    for status in /proc/[0-9]*/status; do
        if grep -qx "PPid:[[:space:]]*$1" "$status" 2>/dev/null; then
            status=${status#/proc/}
            end_process "${status%/status}" 0
        fi
    done
    end_process "$1" 1
}

# --- verbs ------------------------------------------------------------------------------------------------

start() {
    local host
    if host=$(find_host); then
        say "using the engine that answers at $host"
        return
    fi
    require_root_on_debian
    if ! command -v dockerd >/dev/null 2>&1; then "$here/packages.sh" docker.io 9>&- || exit 1; fi
    local began=$SECONDS
    launch
    say "started a private engine at $(private_host) (pid $(private_pid), $((SECONDS - began)) s)"
    say "its state is in $state; 'engine.sh stop' ends it; it has no network and changed no firewall rule"
}

stop() {
    if ! private_pid >/dev/null; then say "no private engine is running"; fi
    [ -z "$(run_dir)" ] || end_private
    if [ -f "$state/run-dir" ]; then rm -rf -- "$(cat "$state/run-dir")"; rm -f "$state/run-dir"; fi
    say "stopped"
}

status() {
    local host pid
    host=$(find_host) || { say "no engine answers"; return 3; }
    if pid=$(private_pid) && [ "$host" = "$(private_host)" ]; then
        say "private engine at $host (pid $pid)"
    else
        say "engine of this machine at $host"
    fi
    if command -v docker >/dev/null 2>&1; then
        DOCKER_HOST=$host docker info --format \
            'version {{.ServerVersion}}, storage {{.Driver}}, cgroup v{{.CgroupVersion}}, {{.Containers}} containers, {{.Images}} images'
    fi
}

# Run a verb while no other call of this script changes anything.
locked() {
    mkdir -p "$(dirname "$lock")"
    exec 9>"$lock"
    flock -w 900 9 || die "another engine.sh holds $lock for more than 15 minutes"
    "$@"
}

case "${1:-}" in
    start) locked start ;;
    stop) locked stop ;;
    status) status ;;
    socket) find_host || { say "no engine answers: engine.sh start"; exit 3; } ;;
    _serve) serve ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
