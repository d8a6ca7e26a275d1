# expect: policy_violation refused~socket | run: program=script policy=default
import functools


class Last:
    def __del__(self):
        try:
            import socket
        except ImportError:
            pass


kept = Last()
