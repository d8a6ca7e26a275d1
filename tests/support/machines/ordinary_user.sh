#!/usr/bin/env bash
# In the virtual machine, as root: the whole daemon as the user `tester`, by the user unit, as docs/operating/rootless.md says.
#
# Prints "held: …" for each thing that is as it should be and "wrong: …" for each that is not, and ends with 1 where there is one.
set -uo pipefail

user=tester
home=/home/$user
runtime=/run/user/$(id -u "$user")
images=/checkout/images-unpacked
unit=$home/.config/systemd/user/assayd.service
slower=10
wrong=0

as_user() {
    (cd "$home" && exec setpriv --reuid="$user" --regid="$user" --init-groups env -i HOME="$home" PATH=/usr/bin:/bin \
        LANG=C.UTF-8 XDG_RUNTIME_DIR="$runtime" DBUS_SESSION_BUS_ADDRESS="unix:path=$runtime/bus" "$@")
}

# What the package would install.
install_programs() {
    local name module
    for name in assayd assay; do
        module=assayd.__main__
        [ "$name" = assayd ] || module=assayd_client.cli
        cat >"/usr/bin/$name" <<PROGRAM
#!/bin/sh
export PYTHONPATH=/checkout/daemon:/checkout/site PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3.11 -P -c 'import sys; from $module import main; sys.argv[0] = "$name"; sys.exit(main())' "\$@"
PROGRAM
        chmod 0755 "/usr/bin/$name"
    done
    install --mode=0755 /checkout/site/bin/shfmt /usr/bin/
}

install_unit() {
    as_user install -D -m 0644 /checkout/deploy/systemd/assayd-user.service "$unit"
    as_user mkdir "$unit.d"
    sed -n 's/^\(Timeout[A-Za-z]*Sec\|WatchdogSec\)=\([0-9]*\)$/\1=\20/p; s/^\[Service\]$/&/p' "$unit" |
        as_user tee "$unit.d/slow.conf" >/dev/null
    # Little at a time, on images that were unpacked elsewhere: this machine has no network to build them from.
    printf 'Environment=%s\n' ASSAYD_ENGINE__TIMEOUT_S=300 ASSAYD_ENGINE__IMAGES_DIR="$images" ASSAYD_ANALYSIS__WORKERS=1 \
        ASSAYD_POOL__UNUSED_TARGET=0 ASSAYD_POOL__DEFAULT_TARGET=1 | as_user tee -a "$unit.d/slow.conf" >/dev/null
    as_user systemctl --user daemon-reload
}

check() {
    local said=$1
    shift
    if "$@"; then echo "held: $said"; else echo "wrong: $said"; wrong=1; fi
}

# Waits for a condition, for as many seconds as it may take elsewhere.
within() {
    local until=$((SECONDS + $1 * slower))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || { "$@"; return; }
        sleep 2
    done
}

nothing() {
    local found
    found=$("$@")
    [ -z "$found" ] || { printf '  left: %s\n' "$found"; return 1; }
}

# Their ids are of the user's range, which only containers have.
container_processes() { awk '/^Name:/ { name = $2 } /^Uid:/ && $2 >= 100000 { print FILENAME, name }' /proc/[0-9]*/status 2>/dev/null; }
container_groups() { find /sys/fs/cgroup -type d -name 'assayd-*' ! -name assayd-daemon 2>/dev/null; }
container_folders() { find "$runtime/assayd-oci/containers" -mindepth 1 -maxdepth 1 -type d 2>/dev/null; }
daemon_processes() { grep -l -a -E '[a]ssayd|[c]run' /proc/[0-9]*/cmdline 2>/dev/null | grep -v -e "/$$/" -e self; }
of_root() { for each in $(daemon_processes); do awk '/^Uid:/ && $2 == 0 { print FILENAME }' "${each%cmdline}status"; done; }
still() { for each in $1; do [ ! -e "$each" ] || echo "$each"; done; }
main_pid() { as_user systemctl --user show --value --property=MainPID assayd; }
another_than() { local now; now=$(main_pid); [ "$now" != 0 ] && [ "$now" != "$1" ]; }
serves() { as_user systemctl --user show --value --property=StatusText assayd | grep "^serving"; }
validates() {
    as_user assay validate extractor /checkout/examples/extractor/quarter.py --sample-path /data/CLIENT-ABC/2024/Q1/report.csv
}

loginctl enable-linger "$user"
systemctl start "user@$(id -u "$user").service"
install_programs
chown --recursive --no-dereference "$user:" "$images"
install_unit
check "the unit starts" as_user systemctl --user enable --now assayd
check "it serves" within 60 serves
check "doctor has nothing against it" as_user assay doctor
check "an example is validated" validates
check "no process is root's" nothing of_root
killed=$(main_pid) processes=$(container_processes | cut -d ' ' -f 1) groups=$(container_groups) folders=$(container_folders)
check "containers are there when it is killed" test -n "$processes" -a -n "$groups" -a -n "$folders"
as_user systemctl --user kill --signal=KILL --kill-whom=main assayd
check "after SIGKILL no process of a container is left" within 10 nothing still "$processes"
check "it is started again" within 30 another_than "$killed"
check "it serves again" within 60 serves
check "after SIGKILL no control group and no folder is left" within 60 nothing still "$groups $folders"
check "an example is validated again" validates
check "it stops" as_user systemctl --user stop assayd
check "after the stop no process of a container is left" nothing container_processes
check "after the stop no process of the daemon is left" nothing daemon_processes
check "after the stop no control group is left" nothing container_groups
check "after the stop no folder is left" nothing container_folders
[ "$wrong" = 0 ] || journalctl --no-pager --lines=80 _UID="$(id -u "$user")"
exit "$wrong"
