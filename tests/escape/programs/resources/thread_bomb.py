# expect: process_limit pids_refused error=RuntimeError
import threading
import time


def extract(path):
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
