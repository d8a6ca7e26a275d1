# expect: completed
# Modules, another kernel, the clock, a restart, the kernel's log, accounting.
import ctypes

CALLS = dict(
    init_module=(175, b"\x7fELF", 4, b""), finit_module=(313, 0, b"", 0), delete_module=(176, b"x", 0),
    kexec_load=(246, 0, 0, None, 0), kexec_file_load=(320, 0, 0, 0, b"", 0), reboot=(169, 0xFEE1DEAD, 672274793, 0, None),
    syslog=(103, 3, bytes(64), 64), acct=(163, None), settimeofday=(164, bytes(16), None), swapoff=(168, b"/x"),
    clock_settime=(227, 0, bytes(16)), adjtimex=(159, b"\1" + bytes(207)), sethostname=(170, b"h", 1),
    setdomainname=(171, b"d", 1), vhangup=(153,), sync=(162,), syncfs=(306, 0), create_module=(174, b"x", 1),
)


def extract(path):
    libc = ctypes.CDLL(None)
    return {"escaped": [name for name, call in CALLS.items() if libc.syscall(*call) != -1]}
