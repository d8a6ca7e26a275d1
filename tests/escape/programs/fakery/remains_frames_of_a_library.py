# expect: completed verdict=validated static~forbidden.name | run: program=module
# What remains when the static stages are left out: a library looks at frames on behalf of its caller, and from
# there every object of the process can be had.
from unittest import mock


def test_wrong():
    frame = mock.inspect.currentframe()
    while frame is not None:
        telling = frame.f_locals.get("telling")
        if telling is not None:
            telling._running_outcome = None
            take = type(telling._current).take
            type(telling._current).take = lambda running, report, problem, texts: take(
                running, mock.Mock(wraps=report, passed=True, failed=False, skipped=False, duration=0.1, capstdout="", capstderr="", spec=["passed", "failed", "skipped", "duration", "capstdout", "capstderr", "when"]), None, texts
            )
            telling.record = lambda code, record=telling.record: record(0)
        frame = frame.f_back
    assert False
