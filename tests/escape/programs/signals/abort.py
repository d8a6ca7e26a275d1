# expect: signalled signal=SIGABRT
import os


def extract(path):
    os.abort()
