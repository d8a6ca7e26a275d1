# expect: completed | run: program=exec exec=yes units=2
import contextlib
import os
import signal

for number in signal.valid_signals():
    with contextlib.suppress(OSError):
        os.kill(1, number)
for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, number)
