"""Every make target and every benchmark script is run by a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()
RULES = dict(re.findall(r"^([a-z][a-z0-9-]*):(?!=) *([^#\n]*)", MAKEFILE, re.MULTILINE))
SMALLEST = "tests/integration/bench/test_smallest.py"
TARGETS = "tests/integration/deploy/test_targets.py"

TARGET_IS_RUN_BY = {
    **dict.fromkeys(("help", "run", "serve", "docs", "client", "man", "samples", "requirements"), TARGETS),
    **dict.fromkeys(("soak", "day", "cluster-stop", "stop", "clean"), TARGETS),
    "bench": SMALLEST,
    "bench-slips": SMALLEST,
    "bench-hints": SMALLEST,
    "bench-repair": SMALLEST,
    "bench-generate": SMALLEST,
    "cluster": "tests/integration/cluster/test_whole.py",
    "object-storage": "tests/support/stores/object_storage.py",
    "deb": "tests/system/test_package.py",
    "release": "tests/system/test_release.py",
    "two-machines": "tests/system/test_two_machines.py",
}
RUNS_TESTS = {"test", "test-fast", "test-system", "test-cluster", "check"}
WORDS = {
    "bench": "bench.run",
    "bench-slips": "bench.slips.run",
    "bench-hints": "bench.slips.measure",
    "bench-repair": "bench.repair.run",
    "bench-generate": "bench.generate.run",
    "cluster": "deploy/dev/cluster/run.py",
    "object-storage": "deploy/dev/s3.sh",
    "deb": "deb",
    "release": '"make", "release"',
    "stop": "clean",
    "two-machines": "two_machines",
}
"""What a test runs of a target, if it isn't the target itself; `clean` needs `stop`."""

SCRIPT_IS_RUN_BY = {
    "bench.generate.program": "bench/generate/run.py",
    "bench.generate.recorded": "tests/unit/bench/test_recorded.py",
    "bench.images": "tests/integration/imaging/test_on_demand.py",
    "bench.hints.editor": "tests/unit/bench/test_editor.py",
    "bench.named_threads": "bench/cluster.py",
    "bench.repair.program": "bench/repair/run.py",
}
"""All others are run by the test of the smallest mode."""


def _needed(target: str) -> Iterator[str]:
    for name in re.findall(r"(?<![$(])\b[a-z][a-z-]*\b", RULES.get(target, "")):
        yield name
        yield from _needed(name)


def _scripts() -> list[str]:
    found = [*(ROOT / "bench").glob("*.py"), *(ROOT / "bench").glob("*/*.py")]
    files = (path for path in found if '__name__ == "__main__"' in path.read_text())
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files)


IMAGES = ("images", "images-oci")
"""What `$(TESTED_IMAGES)` of `make test` stands for."""
NEEDED_BY_TESTS = {
    *("shellcheck", *IMAGES),
    *(name for target in ("test", "check", *IMAGES) for name in _needed(target)),
}
"""What `make test` or `make check` does before its tests; `setup` installs shellcheck."""


def test_every_target_is_run() -> None:
    targets = RULES.keys() - RUNS_TESTS - NEEDED_BY_TESTS

    assert targets - TARGET_IS_RUN_BY.keys() == set(), "have a test run these targets, and name it here"
    assert [
        target
        for target in sorted(targets)
        if WORDS.get(target, target) not in (ROOT / TARGET_IS_RUN_BY[target]).read_text()
    ] == []


def test_every_script_is_run() -> None:
    run_by = {script: SCRIPT_IS_RUN_BY.get(script, SMALLEST) for script in _scripts()}

    assert len(run_by) > 30
    assert {script: test for script, test in run_by.items() if script not in (ROOT / test).read_text()} == {}


def test_lists_name_what_exists() -> None:
    assert set(TARGET_IS_RUN_BY) <= set(RULES)
    assert set(SCRIPT_IS_RUN_BY) <= set(_scripts())
    assert not set(TARGET_IS_RUN_BY) & NEEDED_BY_TESTS
