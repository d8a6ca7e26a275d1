"""The program `pytest`: one file's tests, told line by line, with the test framework of this environment.

One runner serves all, as one attempt: each test here is a unit of it.
"""

from __future__ import annotations

import json
import sysconfig
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.guests.guest_runner import GuestRunner, Seen, guest_runner

ADAPTER = """
from assayd_adapter import register_adapter

@register_adapter
class Weather:
    def transform(self, raw):
        return {"celsius": raw["temp"]}
"""
ALLOWED = (
    "adapter",
    "assayd_adapter",
    "asyncio",
    "client",
    "json",
    "os",
    "pytest",
    "shared",
    "sys",
    "test_it",
    "unittest",
)
PRELOAD = (
    *(f"_pytest.{part}" for part in ("skipping", "unittest", "warnings")),
    "pytest",
    "pytest_asyncio.plugin",
    "unittest.mock",
)
FRAMEWORK = sysconfig.get_paths()["purelib"]
LIMITS = {"max_processes": 8, "open_files": 128, "output_kept_bytes": 20_000, "unit_result_bytes": 2**20}
TAMPERING = tomllib.loads(Path(__file__).with_name("tampering.toml").read_text())["case"]


class Told:
    """The messages of a unit, in order."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        [record] = seen.records
        self.lines = (
            [json.loads(line) for line in record["raw"].splitlines()] if "raw" in record else [record]
        )

    @property
    def record(self) -> dict[str, object]:
        return self.lines[-1]

    @property
    def notes(self) -> list[str]:
        return list(self.record["notes"])  # type: ignore[call-overload]

    @property
    def exit_code(self) -> int:
        return int(self.seen.end["wait_status"]) >> 8  # type: ignore[call-overload]

    def of(self, event: str) -> list[dict[str, object]]:
        return [line for line in self.lines if line.get("event") == event]

    @property
    def outcomes(self) -> dict[str, object]:
        return {str(line["id"]).partition("::")[2]: line["outcome"] for line in self.of("ended")}


Run = Callable[..., Told]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRunner]:
    with guest_runner(tmp_path_factory.mktemp("work"), FRAMEWORK) as started:
        started.begin(allowed=ALLOWED, denied=("gc",), preload=PRELOAD, **LIMITS)
        yield started


@pytest.fixture
def start(shared: GuestRunner) -> Callable[..., Seen]:
    def start(
        test: str, adapter: str = ADAPTER, deadline_s: float = 20.0, covered: str = "", **others: str
    ) -> Seen:
        laid = {
            "adapter.py": adapter,
            "test_it.py": test,
            **{f"{name}.py": text for name, text in others.items()},
        }
        for name in ("adapter.py", "client.py", "test_it.py"):
            shared.file(name, textwrap.dedent(laid.get(name, "")).encode())
        modules = {
            "files": sorted(laid),
            "provided": ["assayd_adapter", "shared.base"],
            "decorators": ["register_adapter"],
            "base_classes": ["Adapter"],
        }
        arguments = {"modules": modules, "test": "test_it.py", **({"covered": covered} if covered else {})}
        return shared.run("pytest", arguments, deadline_s=deadline_s)

    return start


@pytest.fixture
def run(start: Callable[..., Seen]) -> Run:
    return lambda *args, **others: Told(start(*args, **others))


def test_each_test_is_told_with_its_outcome(run: Run) -> None:
    told = run("""
        import pytest, unittest
        from pytest import mark, skip
        from adapter import Weather

        def test_good(): assert Weather().transform({"temp": 3}) == {"celsius": 3}
        def test_bad():
            print("seen")
            assert Weather().transform({"temp": 3}) == {"celsius": 4}
        @pytest.mark.parametrize("x", [1, 2])
        def test_each(x, tmp_path, monkeypatch, capsys): assert x
        def test_skipped(): skip("not today")
        @mark.xfail
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
    assert told.outcomes == {
        "test_good": "passed", "test_bad": "failed", "test_each[1]": "passed", "test_each[2]": "passed",
        "test_skipped": "skipped", "test_expected": "xfailed", "TestGroup::test_inner": "passed",
        "Case::test_unit": "failed", "test_async": "passed", "test_setup": "error", "test_exit": "failed",
    }  # fmt: skip
    assert (told.record["status"], told.exit_code, told.notes) == ("failed", 1, [])
    bad = next(line for line in told.of("ended") if str(line["id"]).endswith("test_bad"))
    assert (bad["error_type"], bad["file"], bad["line"], bad["stdout"]) == (
        "AssertionError",
        "test_it.py",
        9,
        "seen\n",
    )
    assert str(bad["message"]).startswith("assert {'celsius': 3} == {'celsius': 4}")
    assert 'File "test_it.py", line 9, in test_bad' in str(bad["traceback"])
    assert told.seen.output("stdout") == b"seen\n"


def test_all_that_passes_is_good_and_exits_with_zero(run: Run) -> None:
    told = run("def test_a(): pass\ndef test_b(): pass\n")
    assert told.of("collected")[0]["tests"] == ["test_it.py::test_a", "test_it.py::test_b"]
    record = {"status": "returned", "framework": 0, "lines": 5, "collected": 2, "ended": 2, "notes": []}
    assert (told.record, told.exit_code) == (record, 0)


def test_imports_of_all_files_are_events_with_their_place(run: Run) -> None:
    told = run(
        "import json\nimport client\ndef test_a(): import os\n",
        client="import adapter\nfrom shared.base import Adapter\n",
    )
    seen = [
        (h["detail"], h["file"], h["line"], h["allowed"]) for h, _ in told.seen.frames if h["type"] == "event"
    ]
    assert seen == [
        ("json", "test_it.py", 1, True),
        ("client", "test_it.py", 2, True),
        ("adapter", "client.py", 1, True),
        ("assayd_adapter", "adapter.py", 2, True),
        ("shared.base", "client.py", 2, True),
        ("os", "test_it.py", 3, True),
    ]
    assert told.record["status"] == "returned"


def test_import_that_the_policy_refuses_is_one_in_any_file(run: Run) -> None:
    told = run("import adapter\ndef test_a(): pass\n", adapter="import socket\n")
    [line] = told.of("not_imported")
    assert (line["error_type"], line["file"], line["line"]) == ("ImportError", "adapter.py", 1)
    assert told.seen.refusals == [("import", "socket", 1)]


def test_libraries_and_patched_names_are_those_of_the_interpreter(run: Run) -> None:
    told = run(
        """
        import json, unittest.mock
        import adapter
        def test_open():
            with unittest.mock.patch("builtins.open", unittest.mock.mock_open(read_data="made up")):
                assert adapter.read() == "made up"
        def test_modules():
            with unittest.mock.patch.dict("sys.modules", {"json": None}):
                pass
        """,
        adapter="def read():\n    with open('x') as file: return file.read()\n",
    )
    assert set(told.outcomes.values()) == {"passed"}, told.lines


@pytest.mark.parametrize(
    ("test", "error_type"),
    [
        ("import sys\nsys.exit(0)\ndef test_a(): pass\n", "SystemExit"),
        ("from adapter import Absent\ndef test_a(): pass\n", "ImportError"),
        ("raise KeyboardInterrupt\ndef test_a(): pass\n", "KeyboardInterrupt"),
        ("def test_a(:\n", "SyntaxError"),
    ],
)
def test_file_that_cannot_be_imported_is_told_and_fails(run: Run, test: str, error_type: str) -> None:
    told = run(test)
    [line] = told.of("not_imported")
    assert line["error_type"] == error_type
    assert (told.record["status"], told.record["collected"], told.exit_code) == ("failed", 0, 1)


def test_file_that_skips_itself_is_told_and_is_no_failure(run: Run) -> None:
    told = run("from pytest import skip\nskip('no', allow_module_level=True)\ndef test_a(): pass\n")
    assert [line["message"] for line in told.of("import_skipped")] == ["no"]
    assert (told.record["status"], told.exit_code) == ("returned", 0)


def test_file_without_tests_is_told_as_such(run: Run) -> None:
    told = run("x = 1\n")
    assert told.of("collected")[0]["tests"] == []
    assert told.record["status"] == "returned"


def test_tests_that_cannot_be_collected_are_told(run: Run) -> None:
    told = run("import pytest\n@pytest.mark.parametrize('y', [1])\ndef test_a(x): pass\n")
    assert told.of("not_collected")
    assert told.record["status"] == "failed"


def test_more_tests_than_are_run_are_told(run: Run) -> None:
    told = run("import pytest\n@pytest.mark.parametrize('x', range(1001))\ndef test_a(x): pass\n")
    assert told.of("too_many") == [{"event": "too_many", "count": 1001}]
    assert told.record["status"] == "failed"


def test_test_that_stops_all_others_is_told(run: Run) -> None:
    told = run("import pytest\ndef test_a(): pytest.exit('enough')\ndef test_b(): pass\n")
    [line] = told.of("stopped")
    assert (line["error_type"], line["message"], line["line"]) == ("Exit", "enough", 2)
    assert (told.record["status"], told.record["ended"], told.record["collected"]) == ("failed", 0, 2)


def test_what_was_told_before_a_kill_is_there_after_it(start: Callable[..., Seen]) -> None:
    seen = start("""
        import os
        def test_a(): pass
        def test_b(): os.kill(os.getpid(), 9)
    """)
    assert (seen.end["wait_status"], seen.end["results"]) == (9, 0)
    assert "middle" in str(seen.end["malformed"])
    [record] = seen.records
    told = [json.loads(line) for line in record["raw"].splitlines()]  # type: ignore[attr-defined]
    assert [line["event"] for line in told] == ["collected", "started", "ended", "started"]
    assert told[-1]["id"] == "test_it.py::test_b"


@pytest.mark.parametrize(("test", "note"), [(case["test"], case["note"]) for case in TAMPERING])
def test_exchange_of_what_tests_are_judged_by_is_noted(run: Run, test: str, note: str) -> None:
    told = run(test)
    assert any(text.startswith(note) for text in told.notes), told.lines
    assert (told.record["status"], told.exit_code) == ("failed", 1)


def test_framework_that_fails_itself_is_told_of(run: Run) -> None:
    told = run("def test_a(request): request.config.stash._storage.clear()\n")
    assert [str(line["error_type"]) for line in told.of("stopped")][-1:] == ["KeyError"]
    assert (told.record["status"], told.exit_code) == ("failed", 1)


def test_module_that_takes_tests_away_leaves_them_unended(run: Run) -> None:
    told = run("def test_a(request): request.session.items.clear()\ndef test_b(): assert 0\n")
    assert (told.record["status"], told.record["collected"], told.record["ended"]) == ("failed", 2, 1)


def test_process_cannot_be_ended_at_once_and_its_forks_can(run: Run) -> None:
    told = run("""
        import os
        def test_end():
            try:
                os._exit(0)
            except BaseException:
                pass
        def test_fork():
            child = os.fork()
            if child == 0:
                os._exit(7)
            assert os.waitpid(child, 0)[1] == 7 << 8
    """)
    assert told.outcomes == {"test_end": "passed", "test_fork": "passed"}
    assert told.seen.refusals == [("os._exit", "os._exit", 5)]


def test_forged_record_is_followed_by_the_real_one(start: Callable[..., Seen]) -> None:
    seen = start("""
        import json, os
        def test_a():
            head, body = b'{"type":"result","last":true}', b'{"status":"returned"}'
            os.write(3, len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)
            for act in (lambda: os.close(3), lambda: os.dup2(1, 3), lambda: os.closerange(3, 4)):
                try:
                    act()
                except OSError:
                    pass
            assert 0
    """)
    assert seen.end["malformed"] == "more than one result"


def test_plugin_that_is_asked_for_leads_nowhere(run: Run) -> None:
    told = run("""
        def test_a(request):
            plugin = request.config.pluginmanager.get_plugin("assayd")
            for name, value in vars(plugin).items():
                if name.startswith("pytest_"):
                    assert set(value.__globals__) == {"__builtins__", "told"}
                    assert value.__closure__ is None
                    told = value.__globals__["told"]
                    assert not hasattr(told, "__globals__") and not hasattr(told, "__wrapped__")
    """)
    assert told.outcomes == {"test_a": "passed"}, told.lines


COVERED = """
    class Weather:
        def transform(self, raw):
            'Return the temperature.'
            if raw is None:
                return {}
            try:
                return {"celsius": raw["temp"]}
            except KeyError:
                raise ValueError("no temperature") from None

        async def fetch(self):
            return {"temp": 1}
"""


def test_blocks_of_the_covered_file_tell_that_they_begin(run: Run) -> None:
    told = run(
        """
        from adapter import Weather

        def test_it(): assert Weather().transform({"temp": 3}) == {"celsius": 3}
        """,
        COVERED,
        covered="adapter.py",
    )

    blocks = str(told.record["blocks"]).split(";")
    assert sorted(blocks) == ["0 10", "0 6", "0 8", "12 13", "3 5 7"]
    assert {blocks[int(number)] for number in str(told.record["seen"]).split()} == {"3 5 7", "0 8"}


def test_an_exception_of_the_covered_file_keeps_its_lines(run: Run) -> None:
    told = run(
        """
        from adapter import Weather

        def test_it(): assert Weather().transform({})
        """,
        COVERED,
        covered="adapter.py",
    )

    [ended] = told.of("ended")
    assert (ended["error_type"], ended["file"], ended["line"]) == ("ValueError", "adapter.py", 10)
