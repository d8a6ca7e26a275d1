# expect: out_of_memory
import mmap


def extract(path):
    area = mmap.mmap(-1, 2**30)
    for start in range(0, 2**30, 4096):
        area[start] = 1
    return {"escaped": ["a gibibyte"]}
