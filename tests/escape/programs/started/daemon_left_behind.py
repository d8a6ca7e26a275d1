# expect: left_processes left=1 | run: program=exec exec=yes
import os
import signal

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        signal.pause()
    os._exit(0)
os.wait()
