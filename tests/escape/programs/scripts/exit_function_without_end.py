# expect: timeout killed_by~deadline | run: program=script exec=yes deadline_s=1
import atexit
import time

atexit.register(time.sleep, 60)
