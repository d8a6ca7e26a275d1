# expect: timeout killed_by~deadline | run: program=exec exec=yes deadline_s=1
import os
import time

os.closerange(0, 64)
time.sleep(60)
