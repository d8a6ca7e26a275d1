# expect: signalled signal=SIGALRM
import signal


def extract(path):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while True:
        pass
