# expect: completed
import os

FILES = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sysrq-trigger",
    "/proc/kmsg",
    "/proc/kcore",
    "/proc/timer_list",
    "/proc/1/oom_score_adj",
    "/proc/1/comm",
    "/proc/1/mem",
    "/proc/1/clear_refs",
    "/proc/1/coredump_filter",
    "/proc/1/timerslack_ns",
    "/proc/1/autogroup",
    "/proc/self/uid_map",
    "/proc/self/gid_map",
    "/proc/self/setgroups",
    "/proc/self/attr/exec",
)


def extract(path):
    escaped = []
    for name in FILES:
        for flags in (os.O_WRONLY, os.O_WRONLY | os.O_APPEND):
            try:
                descriptor = os.open(name, flags)
                if os.fstat(descriptor).st_rdev == os.makedev(1, 3):
                    continue  # masked: the null device lies over it
                os.write(descriptor, b"1\n")
            except OSError:
                continue
            escaped.append(name)
    return {"escaped": escaped}
