# For scripts to source: mount the control groups that a machine lacks. Needs `say`.

# Mount the cgroup file systems that runtimes need and the machine lacks; the caller hides them in a namespace of its own.
mount_cgroups() {
    local controller
    if [ "$(stat -f -c %T /sys/fs/cgroup 2>/dev/null)" = cgroup2fs ]; then return; fi
    if ! grep -q ' - cgroup' /proc/self/mountinfo; then
        # A kernel whose memory controller is in no v1 hierarchy most likely wants v2.
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        if grep -qw memory /sys/fs/cgroup/cgroup.controllers; then return; fi
        umount /sys/fs/cgroup
        mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    fi
    for controller in cpuset cpu cpuacct blkio memory devices freezer pids; do
        if has_controller "$controller"; then continue; fi
        mkdir -p "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" || say "cannot mount cgroup $controller"
    done
    # A hierarchy that exists and isn't mounted here keeps containerd from watching for out-of-memory events.
    if grep -q ':name=systemd:' /proc/self/cgroup && ! has_hierarchy name=systemd; then
        mkdir -p /sys/fs/cgroup/systemd
        mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd || say "cannot mount cgroup name=systemd"
    fi
}

# True if v1 controller $1 is mounted, or the kernel does not have it.
has_controller() {
    awk -v name="$1" '$1 == name && $4 == 1 { found = 1 } END { exit found }' /proc/cgroups || has_hierarchy "$1"
}

has_hierarchy() {
    sed -n 's/.* - cgroup [^ ]* //p' /proc/self/mountinfo | tr ',' '\n' | grep -qx "$1"
}

# True if control groups are of version 2, or every controller that is named is mounted.
cgroups_are_mounted() {
    local controller
    if [ "$(stat -f -c %T /sys/fs/cgroup 2>/dev/null)" = cgroup2fs ]; then return; fi
    for controller in "$@"; do
        [ -e "/sys/fs/cgroup/$controller/cgroup.procs" ] || return 1
    done
}
