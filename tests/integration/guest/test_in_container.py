"""The runner as PID 1 of a real container: behavior that needs a kernel and a namespace."""

from __future__ import annotations

import errno
import signal
import textwrap
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assayd.guest_results import ExecFailure, ReturnedValue, parse_guest_record
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.model.run import Cause, Limits, Program, RunResult, RunSpec, Unit, UnitEndReason, UnitResult
from assayd.model.submission import JsonValue
from assayd.sandbox.sandbox import Sandbox
from support.engines import sandboxes
from support.engines.oci import make_one_engine

pytestmark = pytest.mark.engine

MIB = 2**20
LIMITS = Limits(
    timeout_s=30,
    unit_timeout_s=10,
    memory_bytes=64 * MIB,
    max_processes=6,
    work_bytes=8 * MIB,
    work_files=200,
)
PLAIN = "def extract(): return 'well'"


@pytest_asyncio.fixture
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """Return a sandbox without a warm pool."""
    engine = make_one_engine(request, templates=False)
    try:
        async with sandboxes.sandbox_on(engine) as made:
            yield made
    finally:
        await engine.close()


async def run(
    sandbox: Sandbox, *sources: str, collect: tuple[str, ...] = (), fresh: bool = True
) -> RunResult:
    """Run each text as a unit of one container; the value is that of its `extract`."""
    units = tuple(
        Unit(
            name=f"unit {number}",
            program=Program.CALL,
            arguments={
                "source": textwrap.dedent(source), "filename": "given.py", "function": "extract", "args": [],
                "kwargs": {}, "builtins": "full",
            },
            deadline_s=2,
            fresh_cwd=fresh,
        )
        for number, source in enumerate(sources)
    )  # fmt: skip
    imports = ImportPolicy(mode=ImportMode.OBSERVE)
    spec = RunSpec(image="python", limits=LIMITS, units=units, imports=imports, collect=collect)
    return await sandboxes.run(sandbox, spec)


def value(unit: UnitResult) -> JsonValue:
    """Return the call's value."""
    record = parse_guest_record(*unit.results)
    assert isinstance(record, ReturnedValue), record
    return record.value.value


async def test_unit_that_shuts_the_work_directory_does_not_harm_the_next(sandbox: Sandbox) -> None:
    result = await run(sandbox, "import os\ndef extract(): os.chmod('.', 0)", PLAIN, PLAIN)

    assert [value(unit) for unit in result.units] == [None, "well", "well"]


async def test_child_has_no_privileges_and_three_filters(sandbox: Sandbox) -> None:
    result = await run(sandbox, """
        import os
        def extract():
            with open("/proc/self/status") as status:
                fields = dict(line.rstrip("\\n").split(":\\t", 1) for line in status if ":\\t" in line)
            with open("/proc/self/oom_score_adj") as score:
                killable = score.read().strip()
            kept = [fields[name] for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp_filters")]
            others = [group for group in os.getgroups() if group != os.getgid()]
            return [os.getresuid(), os.getresgid(), others, *kept, killable, os.getcwd()]
    """)  # fmt: skip

    ids, none = [10001] * 3, "0" * 16
    assert value(result.units[0]) == [ids, ids, [], none, none, "1", "3", "1000", "/sandbox"]


async def test_nothing_inside_can_stop_trace_slow_or_read_the_runner(sandbox: Sandbox) -> None:
    attack = """
        import os, resource, signal
        def extract():
            through = []
            for number in signal.valid_signals():
                os.kill(1, number)
            for act in (
                lambda: os.kill(-1, signal.SIGSTOP),
                lambda: open("/proc/1/mem").read(1),
                lambda: open("/proc/1/environ").read(1),
                lambda: open("/proc/1/maps").read(1),
                lambda: os.listdir("/proc/1/fd"),
                lambda: os.listdir("/proc/1/root"),
                lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
                lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
                lambda: os.sched_setaffinity(1, {0}),
                lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
            ):
                try:
                    act()
                    through.append(act.__code__.co_firstlineno)
                except (PermissionError, ProcessLookupError):
                    pass
            return through
    """

    result = await run(sandbox, attack, PLAIN)

    assert [value(unit) for unit in result.units] == [[], "well"]


async def test_memory_is_taken_from_the_child_and_the_runner_goes_on(sandbox: Sandbox) -> None:
    result = await run(sandbox, "def extract(): return len(bytearray(200 * 2**20))", PLAIN)

    greedy, after = result.units
    assert (greedy.wait_status, greedy.end, greedy.results) == (signal.SIGKILL, UnitEndReason.EXITED, ())
    assert greedy.usage.oom_kills >= 1
    assert (value(after), after.usage.oom_kills) == ("well", 0)


async def test_fork_bomb_is_refused_counted_and_cleared_away(sandbox: Sandbox) -> None:
    bomb = """
        import os
        def extract():
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
    """

    result = await run(sandbox, bomb, PLAIN)

    bombed, after = result.units
    assert bombed.end is UnitEndReason.DEADLINE
    assert bombed.usage.pids_refused > 0
    assert (value(after), after.usage.pids_refused, after.left_processes) == ("well", 0, 0)


async def test_daemonised_process_is_counted_and_killed(sandbox: Sandbox) -> None:
    daemon = """
        import os, signal
        def extract():
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                    signal.pause()
                os._exit(0)
            os.wait()
            return "left"
    """
    look = "import os\ndef extract(): return [name for name in os.listdir('/proc') if name.isdigit()]"

    result = await run(sandbox, daemon, look)

    left, after = result.units
    assert (value(left), left.left_processes) == ("left", 1)
    assert "1" in str(value(after))
    assert len(list(value(after))) == 2  # type: ignore[arg-type]


async def test_full_work_directory_is_seen_and_empty_for_the_next_unit(sandbox: Sandbox) -> None:
    fill = """
        def extract():
            with open("big", "wb") as file:
                try:
                    while True:
                        file.write(bytes(2**16))
                        file.flush()
                except OSError as problem:
                    return problem.errno
    """
    many = """
        import os
        def extract():
            try:
                for number in range(10**6):
                    os.mkdir(f"{number}")
            except OSError as problem:
                return problem.errno
    """
    look = "import os\ndef extract(): return os.listdir()"

    result = await run(sandbox, fill, many, look)

    filled, crowded, after = result.units
    # One file as large as the directory meets the limit on files first.
    assert value(filled) in {errno.ENOSPC, errno.EFBIG}
    assert filled.usage.work_full
    assert filled.usage.work_bytes >= LIMITS.work_bytes
    assert (value(crowded), crowded.usage.work_full) == (errno.ENOSPC, True)
    assert (value(after), after.usage.work_full, after.usage.work_bytes) == ([], False, 0)


async def test_no_unit_finds_what_another_left_in_shared_memory(sandbox: Sandbox) -> None:
    leave = """
        import os
        def extract():
            with open("/dev/shm/left", "w") as file:
                file.write("x")
            return os.listdir("/dev/shm")
    """
    look = "import os\ndef extract(): return os.listdir('/dev/shm')"

    result = await run(sandbox, leave, look, fresh=False)

    assert [value(unit) for unit in result.units] == [["left"], []]


async def test_standard_library_works_under_both_filters(sandbox: Sandbox) -> None:
    tour = """
        import asyncio, concurrent.futures, decimal, multiprocessing, sqlite3, tempfile, threading, zoneinfo
        async def later():
            return await asyncio.to_thread(lambda: 1)
        def extract():
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                threads = list(pool.map(abs, [-1, -2]))
            with multiprocessing.get_context("fork").Pool(1) as pool:
                processes = pool.map(abs, [-3])
                pool.close()
                pool.join()
            with tempfile.TemporaryFile() as file:
                file.write(b"x")
            with sqlite3.connect("x.db") as database:
                row = database.execute("select 1 + 1").fetchone()
            zone = zoneinfo.ZoneInfo("Europe/Berlin").key
            return [asyncio.run(later()), threads, processes, list(row), zone, str(decimal.Decimal("0.1"))]
    """

    result = await run(sandbox, tour)

    assert value(result.units[0]) == [1, [1, 2], [3], [2], "Europe/Berlin", "0.1"]


async def test_declared_outputs_leave_and_others_stay(sandbox: Sandbox) -> None:
    write = """
        import os
        def extract():
            os.mkdir("out")
            for name in ("out/a.txt", "out/b.bin"):
                with open(name, "w") as file:
                    file.write(name)
            os.symlink("/etc/passwd", "out/link.txt")
    """

    result = await run(sandbox, write, collect=("out/*.txt",))

    assert {output.name: output.content for output in result.outputs} == {"out/a.txt": b"out/a.txt"}
    assert result.outputs_dropped == ("'out/link.txt' is not a regular file",)


async def programs(
    sandbox: Sandbox, *texts: str, allow_exec: bool = True, endless: int | None = None
) -> tuple[UnitResult, ...]:
    """Run each text with the image's Python, as a program of its own; all share the work directory.

    Only the one that is `endless` has little time: an interpreter may start slowly on a busy machine.
    """
    units = tuple(
        Unit(
            name=f"program {number}",
            program=Program.EXEC,
            arguments={
                "argv": ["python3.11", "-I", "-S", "-c", textwrap.dedent(text)],
                "env": {"ADDED": "1"},
            },
            deadline_s=1 if number == endless else 20,
            fresh_cwd=False,
        )
        for number, text in enumerate(texts)
    )
    spec = RunSpec(image="python", limits=LIMITS, units=units, allow_exec=allow_exec)
    return (await sandboxes.run(sandbox, spec)).units


async def test_program_gets_the_images_environment_and_the_childs_confinement(sandbox: Sandbox) -> None:
    looks = """
        import os
        with open("/proc/self/status") as status:
            fields = dict(line.rstrip("\\n").split(":\\t", 1) for line in status if ":\\t" in line)
        os.environ.pop("LC_CTYPE", None)
        print(sorted(os.environ.items()))
        print([fields[name] for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp_filters", "SigBlk")])
        killable = open("/proc/self/oom_score_adj").read().strip()
        print(sorted(os.listdir("/proc/self/fd")), os.getcwd(), killable)
        open("left.txt", "w").write("left")
    """
    [looked, after] = await programs(sandbox, looks, "print(open('left.txt').read())")

    none = "0" * 16
    assert looked.outcome.completed, looked.outcome
    assert looked.stdout.text().splitlines() == [
        str([("ADDED", "1"), ("LANG", "C.UTF-8"), ("PATH", "/usr/bin")]),
        str([none, none, "1", "3", none]),
        "['0', '1', '2', '3'] /sandbox 1000",  # 3 is the listing itself
    ]
    assert (after.outcome.cause, after.stdout.text()) == (Cause.COMPLETED, "left\n")


async def test_ends_of_programs_have_their_causes(sandbox: Sandbox) -> None:
    ended = await programs(
        sandbox,
        "raise SystemExit(127)",
        "import os; os.kill(os.getpid(), 11)",
        "x = bytearray(200 * 2**20)",
        "import os\nwhile True: os.fork()",
        "import os, signal\nif os.fork() == 0: os.setsid(); signal.pause()",
        "while True: pass",
        "print('well')",
        endless=5,
    )

    assert [unit.outcome.cause for unit in ended] == [
        Cause.EXITED_NONZERO,
        Cause.SIGNALLED,
        Cause.OUT_OF_MEMORY,
        Cause.PROCESS_LIMIT,
        Cause.LEFT_PROCESSES,
        Cause.TIMEOUT,
        Cause.COMPLETED,
    ]
    assert ended[0].results == ()


async def test_program_is_not_started_where_the_run_allows_none(sandbox: Sandbox) -> None:
    [refused] = await programs(sandbox, "", allow_exec=False)

    assert refused.outcome.cause is Cause.EXITED_NONZERO
    assert parse_guest_record(*refused.results) == ExecFailure(
        error="EPERM", message="Operation not permitted"
    )
