# expect: process_limit pids_refused
import os


def extract(path):
    while True:
        os.fork()
