# expect: process_limit pids_refused | run: processes=1
import os


def extract(path):
    os.fork()
