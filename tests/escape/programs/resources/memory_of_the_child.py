# expect: out_of_memory signal=SIGKILL oom_kills=1
def extract(path):
    kept = []
    while True:
        kept.append(bytearray(2**20))
