# expect: output_limit stdout_kept=262144 stdout_cut killed_by="output read cap"
def extract(path):
    while True:
        print("x" * 1000)
