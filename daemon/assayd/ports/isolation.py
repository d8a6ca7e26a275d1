"""What the containers of every engine have in common, as constants. Numbers that vary are in `ContainerSpec`.

Source: docs/threat-model.md.
"""

from __future__ import annotations

WORK_DIRECTORY = "/sandbox"
HOST_NAME = "sandbox"
GUEST_UID = 10001
SHM_BYTES = 64 * 1024
PENDING_SIGNALS = 256
"""Signals that wait to be taken, and timers that would send one: each takes memory of the kernel."""
MASKED_PATHS = (
    "/dev/mqueue",
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/kernel",
)
READONLY_PATHS = ("/proc/sys",)
SYSCTLS = {"net.ipv4.tcp_rmem": "4096 32768 65536", "net.ipv4.tcp_wmem": "4096 32768 65536"}
"""Least, usual and most that a TCP socket may buffer, in either direction.

Where loopback can be used, that memory is of the host's own pool (net.ipv4.tcp_mem), which not every kernel
counts against the container: 100 connections filled took 370 MiB of it, and take 10 with these.
"""
