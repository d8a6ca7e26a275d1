#!/usr/bin/env bash
# A small virtual machine with systemd and control groups of version 2: vm.sh CACHE FOLDER SECONDS
#
# FOLDER is seen in it as /checkout, and what is written there is lost; /checkout/main.sh is run as root, and vm.sh ends as it does
# (125: not in time). There is a user `tester` with user ids of their own and a service manager. Needs root, Debian and no KVM: it is
# emulated on one processor, three to four times slower than the host by its own clock, and ten to thirty by ours. The root file
# system is made once, below CACHE.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
cache=$(mkdir -p "$1" && cd "$1" && pwd -P)
folder=$(cd "$2" && pwd -P)
seconds=$3

PACKAGES=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,python3.11,libseccomp2,crun,runc,uidmap,kmod
MASKED=(apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer getty@tty1.service
    serial-getty@ttyS0.service systemd-timesyncd.service systemd-journal-flush.service systemd-random-seed.service
    systemd-update-utmp.service systemd-udev-trigger.service)

say() { printf 'vm: %s\n' "$*" >&2; }

make_root() {
    local root=$1/root name
    mmdebstrap --quiet --variant=minbase --mode=root --include="$PACKAGES" --dpkgopt=force-unsafe-io \
        --aptopt='Acquire::Languages "none"' bookworm "$root" >&2
    cp -a "$1/kernel/lib/modules" "$root/usr/lib/"
    chroot "$root" depmod "$(basename "$root"/usr/lib/modules/*)"
    for name in "${MASKED[@]}"; do ln -sf /dev/null "$root/etc/systemd/system/$name"; done
    echo assayd-test >"$root/etc/hostname"
    : >"$root/etc/fstab"
    systemd-id128 new >"$root/etc/machine-id"
    mkdir "$root/checkout"
    cat >"$root/etc/systemd/system/main.service" <<'UNIT'
[Unit]
After=basic.target dbus.service systemd-logind.service
Wants=systemd-logind.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mount /dev/nvme1n1 /checkout && bash /checkout/main.sh; echo "ended with $?"'
ExecStopPost=/bin/systemctl --no-block poweroff -ff
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
UNIT
    chroot "$root" systemctl --quiet enable main.service
    chroot "$root" useradd --create-home --shell /bin/bash tester
    rm -rf "$root"/usr/share/{man,doc,locale}/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
    truncate -s 3G "$1/root.img"
    mke2fs -q -t ext4 -O ^has_journal -d "$root" "$1/root.img"
}

make_kernel() {
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2 }')
    (cd "$1" && apt-get -qq -o APT::Sandbox::User=root download "$package")
    mkdir "$1/kernel"
    dpkg-deb --fsys-tarfile "$1"/linux-image-*.deb |
        tar -x -C "$1/kernel" --wildcards './boot/vmlinuz-*' './lib/modules/*/modules.*'
}

make_machine() {
    local work
    "$here/packages.sh" qemu-system-x86 mmdebstrap e2fsprogs systemd
    apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get -qq update
    say "making $machine (once)"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    make_kernel "$work"
    make_root "$work"
    mkdir -p "$machine.new"
    mv "$work"/kernel/boot/vmlinuz-* "$machine.new/kernel"
    cp --sparse=always "$work/root.img" "$machine.new/"
    mv "$machine.new" "$machine"
    rm -rf "$work"
}

drive() { printf -- '-drive file=%s,if=none,id=%s,format=raw,snapshot=on -device nvme,drive=%s,serial=%s' "$1" "$2" "$2" "$2"; }

# Made anew when what makes it has changed.
machine=$cache/$(declare -p PACKAGES MASKED | cat - <(declare -f make_root make_kernel) | sha256sum | cut -c 1-16)
[ -e "$machine" ] || make_machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
truncate -s 2G "$work/folder.img"
mke2fs -q -t ext4 -O ^has_journal -d "$folder" "$work/folder.img"
# Without -cpu max, the emulator has none of the instructions that wheels are compiled for. One processor is quicker than two that
# are emulated beside each other; what the kernel does against leaks of real processors costs much here, and nothing is kept secret.
# Its clock goes on by a nanosecond with each instruction, so that a busy host makes no deadline pass earlier.
# shellcheck disable=SC2046
timeout "$seconds" qemu-system-x86_64 -accel tcg,tb-size=512 -icount shift=0 -rtc clock=vm -cpu max -machine q35 -smp 1 -m 2048 -nodefaults \
    -display none -no-reboot -monitor none -serial stdio -kernel "$machine/kernel" \
    $(drive "$machine/root.img" root) $(drive "$work/folder.img" folder) \
    -append "root=/dev/nvme0n1 rw console=ttyS0 panic=-1 quiet loglevel=3 mitigations=off init_on_alloc=0 nowatchdog audit=0 systemd.unified_cgroup_hierarchy=1 systemd.show_status=0" \
    </dev/null 2>&1 | sed -u 's|\r||g' | tee "$work/console" || true
exit "$(sed -n 's/^ended with \([0-9]*\)$/\1/p' "$work/console" | tail -n 1 | grep . || echo 125)"
