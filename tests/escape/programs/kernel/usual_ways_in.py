# expect: completed
# Calls that most holes of the kernel were reached through.
import ctypes

CALLS = dict(
    bpf=(321, 5, bytes(128), 128), perf_event_open=(298, bytes(128), 0, -1, -1, 0), userfaultfd=(323, 1),
    io_uring_setup=(425, 4, bytes(120)), io_uring_enter=(426, 0, 0, 0, 0, None, 0), io_setup=(206, 1, bytes(8)),
    keyctl=(250, 0, -3, 0), add_key=(248, b"user", b"k", b"v", 1, -3), request_key=(249, b"user", b"k", None, -3),
    fanotify_init=(300, 0, 0), name_to_handle_at=(303, -100, b"/", bytes(136), bytes(4), 0),
    open_by_handle_at=(304, -100, bytes(136), 0), lookup_dcookie=(212, 0, bytes(64), 64), vmsplice=(278, 1, None, 0, 0),
    splice=(275, 0, None, 1, None, 1, 2), tee=(276, 0, 1, 1, 2), memfd_create=(319, b"m", 0), memfd_secret=(447, 0),
    modify_ldt=(154, 0, bytes(64), 64), iopl=(172, 3), ioperm=(173, 0, 1, 1), personality=(135, 0x0400000),
    uselib=(134, b"/x"), ustat=(136, 0, bytes(32)), sysfs=(139, 3), nfsservctl=(180, 0, 0, 0), vserver=(236, 0, 0, 0),
    quotactl=(179, 0, None, 0, None), landlock_create_ruleset=(444, None, 0, 1), set_mempolicy=(238, 0, None, 0),
    get_mempolicy=(239, None, None, 0, None, 0), mbind=(237, None, 0, 0, None, 0, 0), cachestat=(451, 0, None, None, 0),
    process_mrelease=(448, 0, 0), quotactl_fd=(443, 0, 0, 0, None), remap_file_pages=(216, None, 0, 0, 0, 0),
)


def extract(path):
    libc = ctypes.CDLL(None)
    return {"escaped": [name for name, call in CALLS.items() if libc.syscall(*call) != -1]}
