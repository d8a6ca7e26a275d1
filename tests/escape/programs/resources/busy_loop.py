# expect: timeout signal=SIGKILL killed_by="unit deadline" | run: deadline_s=0.5
def extract(path):
    while True:
        pass
