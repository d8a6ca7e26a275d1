"""The program `pytest`: one file's tests, told line by line, with the test framework of this environment."""

from __future__ import annotations

import json
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.guest_runner import GuestRunner, Seen, guest_runner

ADAPTER = """
from assayd_adapter import register_adapter

@register_adapter
class Weather:
    def transform(self, raw):
        return {"celsius": raw["temp"]}
"""
ALLOWED = (
    "asyncio",
    "assayd_adapter",
    "adapter",
    "client",
    "dataclasses",
    "json",
    "math",
    "os",
    "pytest",
    "test_it",
    "unittest",
)


@pytest.fixture
def runner(work: Path) -> Iterator[GuestRunner]:
    with guest_runner(work, sysconfig.get_paths()["purelib"]) as started:
        yield started


class Told:
    """What a run said, line by line."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.lines = [json.loads(line) for line in seen.records[0]["raw"].splitlines()]

    @property
    def record(self) -> dict[str, object]:
        return self.lines[-1]

    def of(self, event: str) -> list[dict[str, object]]:
        return [line for line in self.lines if line.get("event") == event]

    @property
    def outcomes(self) -> dict[str, object]:
        return {line["id"].partition("::")[2]: line["outcome"] for line in self.of("ended")}


@pytest.fixture
def run(runner: GuestRunner):
    def run(test: str, adapter: str = ADAPTER, mode: str = "enforce", **files: str) -> Told:
        laid = {"adapter.py": adapter, "test_it.py": test, **{f"{k}.py": v for k, v in files.items()}}
        runner.begin(mode=mode, allowed=ALLOWED, max_processes=8, open_files=128)
        for name, text in laid.items():
            runner.file(name, textwrap.dedent(text).encode())
        modules = {
            "files": sorted(laid),
            "provided": ["assayd_adapter", "shared.base"],
            "decorators": ["register_adapter"],
            "base_classes": ["Adapter"],
        }
        seen = runner.run("pytest", {"modules": modules, "test": "test_it.py"})
        print(seen.end, seen.output("stdout"), seen.output("stderr").decode())
        return Told(seen)

    return run


def test_each_test_is_told_with_its_outcome(run):
    told = run("""
        import pytest, unittest
        from adapter import Weather

        def test_good(): assert Weather().transform({"temp": 3}) == {"celsius": 3}
        def test_bad():
            print("seen")
            assert Weather().transform({"temp": 3}) == {"celsius": 4}
        @pytest.mark.parametrize("x", [1, 2])
        def test_each(x, tmp_path, monkeypatch): assert x
        def test_skipped(): pytest.skip("not today")
        @pytest.mark.xfail
        def test_expected(): assert 0
        class TestGroup:
            def test_inner(self): pass
        class Case(unittest.TestCase):
            def test_unit(self): self.assertEqual(1, 2)
        async def test_async():
            import asyncio
            await asyncio.sleep(0)
        @pytest.fixture
        def broken(): raise ValueError("in a fixture")
        def test_setup(broken): pass
        def test_exit(): raise SystemExit(0)
    """)
    for line in told.lines:
        print(line)
    print(told.seen.end, told.seen.events)
    assert 0
