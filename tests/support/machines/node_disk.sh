#!/usr/bin/env bash
# Make the kernel and the disk of an emulated node: node_disk.sh ROOT DEB WHEELS IMAGES TARGET. Root only.
#
# ROOT is the root folder of a Debian system, DEB the package, WHEELS the libraries of a cluster, IMAGES an image store. The node
# reads its settings from a second disk, which has `start.sh`, and runs as root the commands that come through its second serial port.
set -euo pipefail

root=$1 deb=$2 wheels=$3 images=$4 target=$5
MASKED=(apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer getty@tty1.service
    serial-getty@ttyS0.service serial-getty@ttyS1.service systemd-timesyncd.service systemd-random-seed.service
    systemd-update-utmp.service systemd-udev-trigger.service)
# The network card of the machine, and what its driver needs.
MODULES=(drivers/virtio drivers/net/virtio_net.ko drivers/net/net_failover.ko net/core/failover.ko)

add_kernel() {
    local package
    apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get -qq update
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2 }')
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package")
    mkdir "$work/kernel"
    dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb | tar -x -C "$work/kernel" --wildcards './boot/vmlinuz-*' \
        './lib/modules/*/modules.*' "${MODULES[@]/#/./lib/modules/*/kernel/}"
    cp -a "$work/kernel/lib/modules" "$system/usr/lib/"
    chroot "$system" depmod "$(basename "$system"/usr/lib/modules/*)"
    mv "$work"/kernel/boot/vmlinuz-* "$target/kernel"
}

add_package() {
    install -m 0644 "$deb" "$system/root/assayd.deb"
    cp -r "$wheels" "$system/root/wheels"
    chroot "$system" dpkg --install /root/assayd.deb
    PIP_NO_INDEX=1 PIP_FIND_LINKS=/root/wheels chroot "$system" assayd-extras install cluster
    rm -r "$system/root/assayd.deb" "$system/root/wheels"
    install -D -m 0644 "$system/usr/share/doc/assayd/examples/oci.conf" "$system/etc/systemd/system/assayd.service.d/oci.conf"
    # An emulated processor takes ten times as long and more.
    cat >"$system/etc/systemd/system/assayd.service.d/slow.conf" <<'UNIT'
[Service]
TimeoutStartSec=900
WatchdogSec=600
Environment=ASSAYD_ENGINE__TIMEOUT_S=300
Environment=ASSAYD_ANALYSIS__WORKERS=1
Environment=ASSAYD_POOL__UNUSED_TARGET=0
Environment=ASSAYD_POOL__DEFAULT_TARGET=1
UNIT
    mkdir -p "$system/var/lib/assayd"
    chmod 0700 "$system/var/lib/assayd"
    chown 0:0 "$system/var/lib/assayd"
    cp -a "$images" "$system/var/lib/assayd/images"
}

add_units() {
    local name
    for name in "${MASKED[@]}"; do ln -sf /dev/null "$system/etc/systemd/system/$name"; done
    : >"$system/etc/fstab"
    systemd-id128 new >"$system/etc/machine-id"
    cat >"$system/etc/systemd/system/machine.service" <<'UNIT'
[Unit]
Description=Network and settings of this machine
Before=assayd.service assayd-node.service network.target
Wants=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mkdir -p /settings && mount -o ro /dev/nvme1n1 /settings && exec bash /settings/start.sh'
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=multi-user.target
UNIT
    cat >"$system/etc/systemd/system/commands.service" <<'UNIT'
[Unit]
Description=Runs the commands that come through the second serial port
[Service]
ExecStart=/bin/bash -c 'stty raw -echo; while IFS= read -r line; do bash -c "$line" </dev/null 2>&1 | base64 --wrap=0; echo " $${PIPESTATUS[0]}"; done'
StandardInput=tty-force
StandardOutput=tty
TTYPath=/dev/ttyS1
Restart=always
[Install]
WantedBy=multi-user.target
UNIT
    chroot "$system" systemctl --quiet enable machine.service commands.service assayd-node.service
}

make_disk() {
    rm -rf "$system"/usr/share/{man,locale}/* "$system"/var/cache/apt/* "$system"/var/lib/apt/lists/*
    truncate -s 4G "$target/disk"
    mke2fs -q -t ext4 -d "$system" "$target/disk"
}

mkdir -p "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
system=$work/system
cp -a "$root" "$system"
add_kernel
add_package
add_units
make_disk
