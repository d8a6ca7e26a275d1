# expect: timeout killed_by="unit deadline" | run: deadline_s=0.5
# Ignores and blocks every signal that can be, then never ends.
import signal


def extract(path):
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    while True:
        pass
