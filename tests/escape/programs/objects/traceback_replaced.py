# expect: exited_nonzero error=ValueError | run: deadline_s=12
import types


def extract(path):
    problem = ValueError("here")
    try:
        raise problem
    except ValueError:
        pass
    last = problem.__traceback__
    ring = types.TracebackType(None, last.tb_frame, -1, -(2**31))
    for _ in range(10_000):
        ring = types.TracebackType(ring, last.tb_frame, 0, 2**31 - 1)
    raise problem.with_traceback(ring)
