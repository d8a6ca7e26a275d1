"""Runs inside a container: each probe, in a process of its own, shows whether a flag of the container holds.

Takes the names of probes as arguments and prints a JSON object: name -> what it saw, "signal N" when it was
killed, or the name of the exception that it ended with.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import sys
from pathlib import Path

MIB = 2**20


def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)[name].strip()


def network_devices():
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    return sorted(line.split(":")[0].strip() for line in lines if ":" in line)


def name_servers():
    return _resolver("nameserver")


def search_domains():
    return _resolver("search")


def _resolver(keyword):
    lines = [line.split() for line in Path("/etc/resolv.conf").read_text().splitlines()]
    return [word for line in lines if line[:1] == [keyword] for word in line[1:]]


def root_is_writable():
    return not os.statvfs("/").f_flag & os.ST_RDONLY


def kernel_settings_are_writable():
    return not os.statvfs("/proc/sys").f_flag & os.ST_RDONLY


def capabilities():
    return int(status("CapBnd"), 16)


def new_privileges():
    return status("NoNewPrivs") == "0"


def memory_file():
    os.close(os.memfd_create("probe"))
    return "made"


def user():
    return [os.getuid(), os.getgid(), os.getgroups()]


def user_map():
    return Path("/proc/self/uid_map").read_text().split()


def ipc_namespace():
    return str(Path("/proc/self/ns/ipc").readlink())


def host_name_namespace():
    return str(Path("/proc/self/ns/uts").readlink())


def first_process():
    return b"python3.11" in Path("/proc/1/cmdline").read_bytes()


def control_group():
    return sorted({line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()})


def memory():
    area = bytearray(200 * MIB)
    return len(area) // MIB


def processes():
    made = []
    try:
        while len(made) < 64:
            if (child := os.fork()) == 0:
                signal.pause()
            made.append(child)
    except BlockingIOError:
        pass
    for child in made:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(made)


def processor_quota():
    paths = map(Path, ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu.max"))
    return next((path.read_text().split()[0] for path in paths if path.exists()), "unknown")


def core_size():
    return resource.getrlimit(resource.RLIMIT_CORE)[1]


def file_size():
    return resource.getrlimit(resource.RLIMIT_FSIZE)[1]


def queue_bytes():
    return resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]


def pending_signals():
    libc = ctypes.CDLL(None, use_errno=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    queued = 0
    while queued < 1000 and libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), ctypes.c_void_p()) == 0:
        queued += 1
    return queued > 256


def processes_of_the_user():
    return resource.getrlimit(resource.RLIMIT_NPROC)[1]


def open_files():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def work_bytes():
    written = 0
    try:
        for number in range(16):
            written += Path(f"/sandbox/bytes{number}").write_bytes(bytes(MIB))
    except OSError:
        pass
    return written // MIB


def work_files():
    made = 0
    try:
        for number in range(1000):
            os.close(os.open(f"/sandbox/file{number}", os.O_CREAT))
            made += 1
    except OSError:
        pass
    return made


def work_programs():
    Path("/sandbox/program").write_text("#!/usr/bin/python3.11 -IS\n")
    Path("/sandbox/program").chmod(0o755)
    if (child := os.fork()) == 0:
        try:
            os.execv("/sandbox/program", ["program"])
        except PermissionError:
            os._exit(126)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def work_set_uid():
    return not os.statvfs("/sandbox").f_flag & os.ST_NOSUID


def work_devices():
    return not os.statvfs("/sandbox").f_flag & os.ST_NODEV


def shared_memory_bytes():
    found = os.statvfs("/dev/shm")
    return found.f_blocks * found.f_frsize


def connection_bytes():
    listener = socket.create_server(("127.0.0.1", 0))
    stream = socket.create_connection(listener.getsockname())
    stream.setblocking(False)
    held = 0
    try:
        while True:
            held += stream.send(bytes(65536))
    except BlockingIOError:
        return held


def masked_file():
    return len(Path("/proc/interrupts").read_bytes()) > 0


def tried(name):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            seen = globals()[name]()
        except OSError as problem:
            seen = type(problem).__name__
        os.write(writing, json.dumps(seen).encode())
        os._exit(0)
    os.close(writing)
    _, ended = os.waitpid(child, 0)
    shutil.rmtree("/sandbox", ignore_errors=True)
    # Not to its end: what the probe has started holds the pipe as well.
    said = b"null" if os.WIFSIGNALED(ended) else os.read(reading, 65536)
    return f"signal {os.WTERMSIG(ended)}" if os.WIFSIGNALED(ended) else json.loads(said)


if __name__ == "__main__":
    print(json.dumps({name: tried(name) for name in sys.argv[1:]}))
