"""The runtime policy in a real child: which imports and actions it observes, refuses and ignores."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from support.guests.guest_runner import GuestRunner


def test_allowed_import_is_an_event_with_its_line(begun: GuestRunner) -> None:
    seen = begun.call(
        "import math\n\ndef extract():\n    from collections import abc\n    return math.pi > 3"
    )

    assert seen.value is True
    assert seen.events == [("import", "math", True, False, 1), ("import", "collections", True, False, 4)]


def test_import_that_is_not_allowed_fails_at_its_line(begun: GuestRunner) -> None:
    seen = begun.call("def extract():\n    import socket\n    return socket")

    assert seen.events == [("import", "socket", False, True, 2)]
    assert (seen.record["error_type"], seen.record["line"]) == ("ImportError", 2)
    assert seen.record["message"] == "import of 'socket' is not allowed by the policy"


def test_import_that_is_not_allowed_is_only_recorded_where_observed(observing: GuestRunner) -> None:
    seen = observing.call("import socket\ndef extract(): return socket.__name__")

    assert seen.value == "socket"
    assert seen.events == [("import", "socket", False, False, 1)]


def test_import_in_a_loop_is_one_event(begun: GuestRunner) -> None:
    seen = begun.call("def extract():\n    for _ in range(9):\n        import math")

    assert seen.events == [("import", "math", True, False, 3)]


def test_refused_import_that_the_guest_catches_is_still_an_event(begun: GuestRunner) -> None:
    seen = begun.call("""\
        try:
            import socket
        except ImportError:
            socket = None
        def extract(): return socket
    """)

    assert (seen.value, seen.refusals) == (None, [("import", "socket", 2)])


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("from __future__ import annotations", True),
        ("import os.path", True),
        ("from os import path", True),
        ("import os", False),
        ("from os import path, system", False),
        ("from os import *", False),
        ("import json.decoder", True),
        ("import subprocess as math", False),
        ("from . import sibling", False),
        ("__import__('socket')", False),
        ("__builtins__['__import__']('socket')", False),
    ],
)
def test_form_of_an_import_statement(begun: GuestRunner, statement: str, allowed: bool) -> None:
    seen = begun.call(f"{statement}\ndef extract(): return 1")

    assert (seen.record["status"] == "returned", bool(seen.refusals)) == (allowed, not allowed)


def test_denied_submodule_of_an_allowed_package(runner: GuestRunner) -> None:
    runner.begin(allowed=("json", "collections"), denied=("json.tool",))

    assert runner.call("import json\ndef extract(): return 1").value == 1
    assert runner.call("from json import tool").refusals == [("import", "json.tool", 1)]
    assert runner.call("import json.tool").refusals == [("import", "json.tool", 1)]


def test_exact_submodules_are_each_listed(runner: GuestRunner) -> None:
    runner.begin(allowed=("collections", "json.decoder"), submodules="exact")

    assert runner.call("import collections.abc").refusals == [("import", "collections.abc", 1)]
    assert runner.call("from json import decoder\ndef extract(): return 1").value == 1


def test_name_that_is_a_different_text_to_the_import_itself_is_judged_by_its_text(begun: GuestRunner) -> None:
    seen = begun.call("""\
        class Name(str):
            def __str__(self): return "math"
            def __eq__(self, other): return True
            def __hash__(self): return hash("math")
        def extract(): return __import__(Name("socket"))
    """)

    assert seen.refusals == [("import", "socket", 5)]


def test_guarded_import_shows_no_way_to_its_rules(begun: GuestRunner) -> None:
    seen = begun.call("""
        def extract():
            found = {name: getattr(__import__, name, None) for name in dir(__import__)}
            return [name for name, value in found.items() if type(value).__name__ in {"function", "method"}]
    """)

    assert seen.value == []


def test_imports_inside_libraries_are_not_judged(begun: GuestRunner) -> None:
    seen = begun.call("import asyncio\ndef extract(): return asyncio.__name__")

    assert [detail for _, detail, *_ in seen.events] == ["asyncio"]


ORDINARY = """
import asyncio, dataclasses, enum, json, logging, pathlib, random, re, string, time, typing, zoneinfo
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from functools import lru_cache, singledispatch

Point = namedtuple("Point", "x y", defaults=[0])

class Pair(typing.NamedTuple):
    a: int
    b: str = "b"

class Color(enum.Flag):
    RED = 1
    BLUE = enum.auto()

@dataclass(frozen=True, slots=True, order=True)
class Item:
    name: str
    tags: list[str] = field(default_factory=list)

T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    pass

@singledispatch
def show(x): return str(x)
@show.register
def _(x: int): return f"int {x}"

async def later():
    await asyncio.sleep(0)
    return await asyncio.to_thread(lambda: 5)

def extract():
    pathlib.Path("sub").mkdir()
    pathlib.Path("sub/a.txt").write_text("text")
    here = [p.name for p in pathlib.Path(".").rglob("*")]
    logging.warning("careful")
    hints = typing.get_type_hints(Item)
    try:
        json.loads("{")
    except ValueError as problem:
        said = str(problem)
    return [Point(1).x, Pair(1).b, (Color.RED | Color.BLUE).value, Item("n") < Item("o"), show(3), len(hints),
            dataclasses.asdict(Item("n")), re.sub(r"(?P<d>\\d+)", "#", "a1"),
            time.strptime("2020", "%Y").tm_year, datetime.strptime("2020-01-02", "%Y-%m-%d").day, here,
            asyncio.run(later()), str(Decimal("1.10")),
            datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset().seconds,
            string.Template("$a").substitute(a=1), 0 <= random.random() < 1, len(said) > 3]
"""


def test_ordinary_library_use_gives_no_violation(begun: GuestRunner) -> None:
    seen = begun.call(ORDINARY)

    assert seen.refusals == []
    assert seen.value == [
        1, "b", 3, True, "int 3", 2, {"name": "n", "tags": []}, "a#", 2020, 2, ["sub", "a.txt"], 5, "1.10",
        3600, "1", True, True,
    ]  # fmt: skip
    assert seen.output("stderr") == b"WARNING:root:careful\n"


def test_traceback_that_the_guest_prints_reads_no_file_outside(begun: GuestRunner) -> None:
    seen = begun.call("""\
        import logging
        def extract():
            try:
                1 / 0
            except ZeroDivisionError:
                logging.exception("no")
    """)

    assert (seen.record["status"], seen.refusals) == ("returned", [])


@pytest.mark.parametrize(
    ("act", "kind", "detail"),
    [
        ("open('/etc/passwd')", "open", "/etc/passwd"),
        ("open('../../../../../../outside', 'w')", "open", None),
        ("pathlib.Path('/etc/passwd').read_text()", "open", "/etc/passwd"),
        ("open(__import__('os.path').__file__)", "open", None),
        ("pathlib.__loader__.get_data('/etc/passwd')", "open", "/etc/passwd"),
        ("eval('1')", "compile", "compile"),
        ("exec('x = 1')", "compile", "compile"),
        ("compile('1', 'x', 'eval')", "compile", "compile"),
        ("extract.__code__.replace(co_name='x')", "code.__new__", "code.__new__"),
        ("type(extract)(extract.__code__, {})", "function.__new__", "function.__new__"),
        ("setattr(extract, '__code__', extract.__code__)", "object.__setattr__", "__code__"),
        ("getattr(error(), 'tb_frame')", "object.__getattr__", "tb_frame"),
        ("(n for n in ()).gi_frame", "object.__getattr__", "gi_frame"),
        ("pathlib.sys._getframe()", "sys._getframe", "sys._getframe"),
        ("pathlib.sys.settrace(None)", "sys.settrace", "sys.settrace"),
        ("pathlib.os.system('true')", "os.system", "true"),
        ("bootstrap._call_with_frames_removed(pathlib.os.system, 'true')", "os.system", "true"),
        ("pathlib.os.execv('/bin/true', ['true'])", "os.exec", "/bin/true"),
        ("pathlib.os.posix_spawn('/bin/true', ['true'], {})", "os.posix_spawn", "/bin/true"),
        ("asyncio.subprocess.subprocess.run(['/bin/true'])", "subprocess.Popen", "/bin/true"),
        ("asyncio.base_events.socket.socket()", "network", "socket family 2"),
        ("asyncio.base_events.socket.create_connection(('example.org', 80))", "network", "example.org:80"),
        ("asyncio.base_events.socket.gethostbyname('example.org')", "network", "example.org"),
    ],
)
def test_act_is_refused_and_told(begun: GuestRunner, act: str, kind: str, detail: str | None) -> None:
    seen = begun.call(f"""\
        import asyncio, pathlib; bootstrap = pathlib.sys.modules["importlib._bootstrap"]
        def error():
            try:
                1 / 0
            except ZeroDivisionError as problem:
                return problem.__traceback__
        def extract():
            {act}
    """)

    (told,) = seen.refusals
    assert told == (kind, detail or told[1], 8)
    assert (seen.record["error_type"], seen.record["line"]) == ("PermissionError", 8)
    assert "is not allowed by the policy" in str(seen.record["message"])


def test_second_audit_hook_is_told_and_not_installed(begun: GuestRunner) -> None:
    seen = begun.call("""\
        import pathlib
        def extract():
            heard = []
            pathlib.sys.addaudithook(lambda *event: heard.append(event))
            return heard
    """)

    assert (seen.value, seen.refusals) == ([], [("sys.addaudithook", "sys.addaudithook", 4)])


def test_act_is_only_told_where_observed(observing: GuestRunner) -> None:
    seen = observing.call("def extract():\n    return eval('1 + 1')")

    assert seen.value == 2
    assert seen.refusals == [("compile", "compile", 2), ("exec", "exec", 2)]


def test_fork_is_refused_where_one_process_is_the_limit(runner: GuestRunner) -> None:
    runner.begin(max_processes=1)

    seen = runner.call("import pathlib\ndef extract(): return pathlib.os.fork()")

    assert seen.refusals == [("os.fork", "os.fork", 2)]


def test_ctypes_that_the_runner_needs_is_not_among_the_loaded_modules(runner: GuestRunner) -> None:
    runner.begin(allowed=("logging",))

    seen = runner.call("""\
        import logging
        def extract():
            return [name for name in logging.sys.modules if "ctypes" in name]
    """)

    assert seen.value == []


def test_native_code_is_refused_unless_ctypes_is_allowed(runner: GuestRunner) -> None:
    runner.begin(allowed=("ctypes.util",))

    seen = runner.call("""\
        import ctypes.util
        def extract():
            # The package is there by way of its module.
            return ctypes.CDLL(None)
    """)

    assert [(kind, line) for kind, _, line in seen.refusals] == [("ctypes.dlopen", 4)]


def test_native_code_runs_where_ctypes_is_allowed(runner: GuestRunner) -> None:
    runner.begin(allowed=("ctypes",))

    seen = runner.call("import ctypes\ndef extract(): return ctypes.CDLL(None).getpid() > 0")

    assert (seen.value, seen.refusals) == (True, [])


def test_network_of_a_library_is_judged_and_shows_the_submitted_line(runner: GuestRunner) -> None:
    runner.begin(allowed=("urllib",))

    seen = runner.call("""\
        from urllib.request import urlopen
        def extract():
            return urlopen("http://example.org/")
    """)

    assert ("network", "example.org:80", 3) in seen.refusals
    assert seen.record["error_type"] == "URLError"


def test_allowlist_leaves_loopback_open_and_nothing_else(runner: GuestRunner) -> None:
    runner.begin(allowed=("socket",), network="allowlist")

    with socket.create_server(("127.0.0.1", 0)) as server:
        seen = runner.call(
            """\
            import socket
            def extract(port):
                socket.create_connection(("127.0.0.1", port)).close()
                socket.create_connection(("example.org", 443))
            """,
            server.getsockname()[1],
        )

    assert seen.refusals == [("network", "example.org:443", 4)]


def test_file_in_the_work_directory_is_free(begun: GuestRunner, work: Path) -> None:
    seen = begun.call(f"""\
        def extract():
            with open("{work}/a.txt", "w") as file:
                file.write("x")
            with open("a.txt") as file, open("/dev/null", "w"):
                return file.read()
    """)

    assert (seen.value, seen.refusals) == ("x", [])


def test_policy_does_not_depend_on_names_that_guests_can_replace(begun: GuestRunner) -> None:
    seen = begun.call("""\
        import json, pathlib
        def extract():
            real = json.__builtins__
            for name in ("isinstance", "issubclass", "len", "str", "any", "type", "getattr"):
                real[name] = lambda *a, **k: True
            pathlib.os.write = pathlib.os.getcwd = pathlib.sys._getframe = None
            open("/etc/passwd")
    """)

    assert seen.refusals == [("open", "/etc/passwd", 7)]


@pytest.mark.parametrize(
    "call",
    [
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_UNIX)",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.memfd_create('x')",
        "os.sched_setaffinity(os.getppid(), {0})",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "os.setpriority(os.PRIO_USER, 0, 19)",
        "resource.prlimit(os.getppid(), resource.RLIMIT_CORE)",
    ],
)
def test_system_call_is_refused_by_the_filter(runner: GuestRunner, call: str) -> None:
    runner.begin(mode="observe")

    record = runner.call(f"import os, resource, socket\ndef extract(): {call}").record

    assert (record["status"], record["error_type"]) == ("raised", "PermissionError")


def test_system_calls_that_stay_possible(observing: GuestRunner) -> None:
    seen = observing.call("""
        import os, resource, socket, subprocess, threading
        def extract():
            thread = threading.Thread(target=print)
            thread.start()
            thread.join()
            a, b = socket.socketpair()
            a.send(b"x")
            os.sched_setaffinity(0, os.sched_getaffinity(0))
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            return [b.recv(1) == b"x", subprocess.run(["/bin/true"]).returncode]
    """)

    assert seen.value == [True, 0]
