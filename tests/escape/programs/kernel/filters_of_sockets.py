# expect: completed
# Each is compiled into memory that all of the machine shares and no container is charged for (net.core.bpf_jit_limit).
import ctypes
import socket
import struct

STEPS = 3000
OPTIONS = {"SO_ATTACH_FILTER": 26, "SO_ATTACH_REUSEPORT_CBPF": 51, "SO_LOCK_FILTER": 44}


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def attached(option):
    libc = ctypes.CDLL(None)
    load, accept = struct.pack("=HBBI", 0x20, 0, 0, 0), struct.pack("=HBBI", 0x06, 0, 0, 65535)
    program = Program(STEPS, load * (STEPS - 1) + accept)
    one, other = socket.socketpair()
    with one, other:
        return libc.setsockopt(one.fileno(), socket.SOL_SOCKET, option, ctypes.byref(program), 16) == 0


def extract(path):
    return {"escaped": [name for name, option in OPTIONS.items() if attached(option)]}
