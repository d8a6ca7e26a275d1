"""What a worker keeps of a submission after its job."""

from __future__ import annotations

from assayd.analysis.worker import clear_submission_caches
from assayd.static.python import source
from assayd_fifth import language, validator


def test_worker_forgets_submissions_but_no_tables() -> None:
    source.parse_source("x = 1\n")
    validator._analyze_cached("1 .", (), ())
    words = language.get_language()

    clear_submission_caches()

    assert source.parse_source.cache_info().currsize == 0
    assert validator._analyze_cached.cache_info().currsize == 0
    assert language.get_language() is words
