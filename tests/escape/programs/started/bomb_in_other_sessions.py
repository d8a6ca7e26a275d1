# expect: process_limit pids_refused | run: program=exec exec=yes
import os

while True:
    if os.fork() == 0:
        os.setsid()
