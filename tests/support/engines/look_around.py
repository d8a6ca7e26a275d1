"""Runs inside a container: prints as JSON what the container can see and use."""

import json
import os
import resource
import socket
from pathlib import Path

OWN = ("/proc", "/sys")


def status() -> dict[str, str]:
    """Return the kernel's status of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return dict(line.strip().split(":\t", 1) for line in lines if ":\t" in line)


def writable() -> list[str]:
    """List the folders in which this user may create files."""
    return sorted(
        folder for folder, _, _ in os.walk("/") if not folder.startswith(OWN) and os.access(folder, os.W_OK)
    )


def mounted(folder: str) -> list[str]:
    """Return the options of a mount."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    options = [line.split()[3] for line in lines if line.split()[1] == folder]
    return sorted(options[-1].split(","))


def limits() -> dict[str, tuple[int, int]]:
    """Return the resource limits of the container."""
    names = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_MSGQUEUE")
    kinds = {"RLIMIT_CORE": 4, "RLIMIT_FSIZE": 1, "RLIMIT_NOFILE": 7, "RLIMIT_MSGQUEUE": 12}
    return {name: resource.getrlimit(kinds[name]) for name in names}


def main() -> None:
    """Print everything that was found."""
    sandbox = os.statvfs("/sandbox")
    seen = {
        "status": status(),
        "writable": writable(),
        "sandbox": mounted("/sandbox"),
        "sandbox_bytes": sandbox.f_blocks * sandbox.f_frsize,
        "sandbox_files": sandbox.f_files,
        "limits": limits(),
        "pid": os.getpid(),
        "processes": sorted(each.name for each in Path("/proc").iterdir() if each.name.isdigit()),
        "hostname": socket.gethostname(),
        "interfaces": sorted(each.name for each in Path("/sys/class/net").iterdir()),
        "environment": sorted(os.environ),
        "queues": os.access("/dev/mqueue", os.W_OK),
    }
    print(json.dumps(seen), flush=True)
    os.read(0, 1)


main()
