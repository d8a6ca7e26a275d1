# expect: signalled signal=SIGSYS
# The 32-bit table has other numbers; a list that was written for one says nothing about the other.
import ctypes
import mmap


def extract(path):
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    found = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))()
    return {"escaped": [found] if found > 0 else []}
