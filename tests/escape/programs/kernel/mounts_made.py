# expect: completed
import ctypes

CALLS = dict(open_tree=428, move_mount=429, fsopen=430, fsconfig=431, fsmount=432, fspick=433, mount_setattr=442)


def extract(path):
    libc = ctypes.CDLL(None)
    remount, bind, nothing = 0x20, 0x1000, b"none"
    tries = {
        "tmpfs": lambda: libc.mount(nothing, b"/sandbox", b"tmpfs", 0, None),
        "proc": lambda: libc.mount(b"proc", b"/sandbox", b"proc", 0, None),
        "bind": lambda: libc.mount(b"/", b"/sandbox", None, bind, None),
        "root writable": lambda: libc.mount(nothing, b"/", None, remount, None),
        "work directory with programs": lambda: libc.mount(nothing, b"/sandbox", None, remount | bind, None),
        "propagation": lambda: libc.mount(nothing, b"/", None, 0x100000 | 0x4000, None),
        "umount": lambda: libc.umount2(b"/proc/kcore", 2),
        "pivot_root": lambda: libc.syscall(155, b"/", b"/sandbox"),
        "chroot": lambda: libc.chroot(b"/sandbox"),
        "fsopen": lambda: libc.syscall(CALLS["fsopen"], b"tmpfs", 0),
        "open_tree": lambda: libc.syscall(CALLS["open_tree"], -100, b"/", 1),
        "fspick": lambda: libc.syscall(CALLS["fspick"], -100, b"/", 0),
        "mount_setattr": lambda: libc.syscall(CALLS["mount_setattr"], -100, b"/", 0, bytes(32), 32),
        "swapon": lambda: libc.swapon(b"/sandbox/given/data.txt", 0),
    }
    return {"escaped": [name for name, act in tries.items() if act() != -1]}
