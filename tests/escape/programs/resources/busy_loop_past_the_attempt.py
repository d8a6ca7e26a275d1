# expect: timeout run_end=deadline | run: timeout_s=0.7
def extract(path):
    while True:
        pass
