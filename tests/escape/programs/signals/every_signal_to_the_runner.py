# expect: completed
# Every signal to PID 1, by each call that sends one.
import ctypes
import os
import signal

TGKILL, TKILL, RT_SIGQUEUEINFO, PIDFD_SEND_SIGNAL = 234, 200, 129, 424


def extract(path):
    libc = ctypes.CDLL(None)
    information = ctypes.create_string_buffer(128)
    for number in sorted(signal.valid_signals()):
        os.kill(1, number)
        libc.syscall(TGKILL, 1, 1, number)
        libc.syscall(TKILL, 1, number)
        libc.syscall(RT_SIGQUEUEINFO, 1, number, information)
        libc.sigqueue(1, number, ctypes.c_void_p(1))
    descriptor = os.open("/proc/1", os.O_RDONLY | os.O_DIRECTORY)
    sent = libc.syscall(PIDFD_SEND_SIGNAL, descriptor, signal.SIGKILL, None, 0)
    return {"escaped": ["pidfd_send_signal"] if sent == 0 else []}
