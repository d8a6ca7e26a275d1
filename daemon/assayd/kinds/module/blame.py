"""Which file of a module is at fault, by the errors of its report.

A test that failed, or did not come to its end, speaks of what it tests: asked for the test itself, a model
could make it agree. So once that has happened, no file of tests is at fault.

    tests.failed in test_rates.py            rates.py if it exists, otherwise the adapter
    sandbox.out_of_memory in test_rates.py   the same
    tests.import_failed in test_rates.py     test_rates.py, unless a test has failed elsewhere
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from assayd.kinds.module.files import is_python, is_test

_FAILED = frozenset({"tests.failed", "tests.hung", "tests.error", "tests.exited", "tests.not_run"})
_ENDED = "sandbox."
"""Prefixes of the rules for the end of a process; the tested code ends the process of a test file."""

Errors = Iterable[Mapping[str, object]]


def faulty_file(errors: Errors, files: Iterable[str], adapter: str) -> str:
    """Name the file at fault: the first that the errors blame, or the adapter."""
    names = frozenset(files)
    return next((name for name in _blamed(tuple(errors), names, adapter) if name in names), adapter)


def has_failed_test(errors: Errors) -> bool:
    """Return whether a test ran and failed, or was ended."""
    return any(map(_is_failed_test, errors))


def _blamed(errors: Errors, files: frozenset[str], adapter: str) -> Iterator[str]:
    failed = has_failed_test(errors)
    for error in errors:
        name = str(error.get("file"))
        if not (failed and is_test(name)):
            yield name
        elif _is_failed_test(error):
            yield _tested_by(name, files) or adapter


def _is_failed_test(error: Mapping[str, object]) -> bool:
    rule = str(error.get("rule"))
    return rule in _FAILED or (rule.startswith(_ENDED) and is_test(str(error.get("file"))))


def _tested_by(test: str, files: frozenset[str]) -> str | None:
    """Return the one file that a file of tests has its name from."""
    stem = PurePosixPath(test).stem
    names = {stem.removeprefix("test_"), stem.removesuffix("_test")}
    found = [one for one in files if is_python(one) and not is_test(one) and PurePosixPath(one).stem in names]
    return found[0] if len(found) == 1 else None
