"""Decides which file of a module is at fault, based on the errors in the report.

A test that fails or doesn't finish is evidence against the tested code. A model that had to fix the test
could change it to agree with the code. Therefore, after such a failure, a test file is never reported as at
fault.

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
"""Prefix of the rules for a process's end; the tested code ends the process of a test file."""

Errors = Iterable[Mapping[str, object]]


def find_faulty_file(errors: Errors, files: Iterable[str], adapter: str) -> str:
    """Return the file at fault: the first file to which an error is attributed, or the adapter."""
    names = frozenset(files)
    return next(
        (name for name in _iter_blamed_files(tuple(errors), names, adapter) if name in names), adapter
    )


def has_failed_test(errors: Errors) -> bool:
    """Return whether a test ran but failed or was terminated."""
    return any(map(_is_failed_test, errors))


def _iter_blamed_files(errors: Errors, files: frozenset[str], adapter: str) -> Iterator[str]:
    failed = has_failed_test(errors)
    for error in errors:
        name = str(error.get("file"))
        if not (failed and is_test(name)):
            yield name
        elif _is_failed_test(error):
            yield _find_tested_file(name, files) or adapter


def _is_failed_test(error: Mapping[str, object]) -> bool:
    rule = str(error.get("rule"))
    return rule in _FAILED or (rule.startswith(_ENDED) and is_test(str(error.get("file"))))


def _find_tested_file(test: str, files: frozenset[str]) -> str | None:
    """Return the file that a test file is named after (``rates.py`` for ``test_rates.py``), or None."""
    stem = PurePosixPath(test).stem
    names = {stem.removeprefix("test_"), stem.removesuffix("_test")}
    found = [one for one in files if is_python(one) and not is_test(one) and PurePosixPath(one).stem in names]
    return found[0] if len(found) == 1 else None
