# expect: timeout killed_by~deadline | run: program=exec exec=yes deadline_s=1
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)
