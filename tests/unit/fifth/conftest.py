from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.model.finding import Finding, Severity
from assayd_fifth.analysis import analyze_program
from support.daemons.cli_fixtures import assay, finished, server, service, socket  # noqa: F401 - pytest finds them

Check = Callable[..., list[Finding]]


@pytest.fixture
def check() -> Check:
    """Return a function that checks a program, and omits findings for information."""

    def run(code: str, *libraries: str, **how: object) -> list[Finding]:
        found = analyze_program(code, libraries=libraries, **how).findings  # type: ignore[arg-type]
        return [f for stage in found.values() for f in stage if f.severity is not Severity.INFO]

    return run
