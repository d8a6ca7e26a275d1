# expect: completed
import ctypes
import os


def extract(path):
    libc = ctypes.CDLL(None)
    escaped = []
    for act in (
        lambda: os.setuid(0),
        lambda: os.setgid(0),
        lambda: os.setresuid(-1, 0, 0),
        lambda: os.setgroups([0]),
        lambda: os.chown("/sandbox/given/data.txt", 0, 0),
        lambda: os.chroot("/"),
        lambda: os.sethostname("h") if hasattr(os, "sethostname") else libc.sethostname(b"h", 1) and os.chroot("/"),
    ):
        try:
            act()
            escaped.append(act.__code__.co_names)
        except OSError:
            pass
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        if int(status[name], 16):
            escaped.append([name, status[name]])
    if status["NoNewPrivs"] != "1" or status["Seccomp"] != "2" or "0" in status["Uid"].split() + status["Groups"].split():
        escaped.append(status)
    header, wanted = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
    if libc.capset(header, wanted) == 0:
        escaped.append("capset")
    if libc.prctl(38, 0, 0, 0, 0) == 0:
        escaped.append("no_new_privs taken back")
    if libc.prctl(8, 1, 0, 0, 0) == 0 and libc.prctl(28, 0, 0, 0, 0) == 0 and libc.prctl(47, 2, 0, 0, 0) == 0:
        escaped.append("ambient capability")
    return {"escaped": escaped}
