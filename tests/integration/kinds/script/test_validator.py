"""Scripts in containers: exit codes, files, outputs, leftovers, and what they can't forge."""

from __future__ import annotations

import textwrap

import pytest

from assayd.errors import RequestError
from assayd.model.report import CaseStatus, Verdict
from assayd.model.run import Cause
from support.daemons.attempts import Attempts, Tried

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

PYTHON = "python3.11"


async def run(attempts: Attempts, code: str, **payload: object) -> Tried:
    """Run a text as a script."""
    return await attempts.submit("script", {"code": textwrap.dedent(code), **payload})


def outputs(tried: Tried) -> dict[str, bytes]:
    """Return the collected files."""
    assert tried.result is not None
    return {output.name: output.content for output in tried.result.outputs}


async def test_script_reads_its_input_and_files_and_leaves_what_it_declares(attempts: Attempts) -> None:
    tried = await run(
        attempts,
        """
        import csv, os, sys
        os.mkdir("out")
        with open("data/in.csv") as given, open("out/[1].csv", "w") as file:
            csv.writer(file).writerows([*csv.reader(given), [sys.stdin.read()]])
        sys.exit()
        """,
        stdin="last",
        files={"data/in.csv": "a,b\n", "data/raw.bin": {"base64": "AP8="}},
        collect=["out/[1].csv", "data/raw.bin"],
    )

    assert tried.verdict is Verdict.VALIDATED, tried.findings
    assert outputs(tried) == {"data/raw.bin": b"\x00\xff", "out/[1].csv": b"a,b\r\nlast\r\n"}
    assert tried.case.exit_code == 0


async def test_script_may_read_its_own_text(attempts: Attempts) -> None:
    code = """
        import inspect
        def f():
            return 1
        print(inspect.getsource(f).strip().splitlines()[0], len(open(__file__).read()) > 50)
        """

    tried = await run(attempts, code)

    assert (tried.verdict, tried.case.stdout) == (Verdict.VALIDATED, "def f(): True\n"), tried.findings


async def test_program_of_the_image_runs_with_its_files(attempts: Attempts) -> None:
    files = {"main.py": "import helper, sys\nprint(helper.WORD, sys.argv[1:])", "helper.py": "WORD = 'hi'"}

    tried = await attempts.submit("script", {"files": files, "argv": [PYTHON, "main.py", "a b"]})

    assert (tried.verdict, tried.case.stdout) == (Verdict.VALIDATED, "hi ['a b']\n")


@pytest.mark.parametrize(
    ("code", "cause", "rule"),
    [
        ("raise SystemExit(7)", Cause.EXITED_NONZERO, "sandbox.exited_nonzero"),
        ("rows = []\nprint(rows[0])", Cause.EXITED_NONZERO, "sandbox.raised"),
        ("print(math.pi)", Cause.EXITED_NONZERO, "sandbox.name_undefined"),
        ("import os; os.kill(os.getpid(), 11)", Cause.SIGNALLED, "sandbox.signalled"),
        ("x = [bytearray(2**20) for _ in range(2**12)]", Cause.OUT_OF_MEMORY, "sandbox.out_of_memory"),
        ("import os\nwhile True: os.fork()", Cause.PROCESS_LIMIT, "sandbox.process_limit"),
        ("while True: print('x' * 10_000)", Cause.OUTPUT_LIMIT, "sandbox.output_limit"),
        ("f = open('f', 'wb')\nwhile True: f.write(bytes(2**16))", Cause.DISK_LIMIT, "sandbox.disk_limit"),
        (
            "import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.pause()",
            Cause.LEFT_PROCESSES,
            "sandbox.left_processes",
        ),
    ],
)
@pytest.mark.parametrize("form", ["code", "argv"])
async def test_bad_end_fails_with_its_cause(
    attempts: Attempts, form: str, code: str, cause: Cause, rule: str
) -> None:
    program = {"code": code} if form == "code" else {"argv": [PYTHON, "-c", code]}

    tried = await attempts.submit("script", program)

    assert tried.result is not None
    assert (tried.verdict, tried.result.outcome.cause) == (Verdict.FAILED, cause)
    told = rule if form == "code" or cause is not Cause.EXITED_NONZERO else "sandbox.exited_nonzero"
    assert told in tried.rules
    assert all(finding.suggestion for finding in tried.findings if finding.is_error)


async def test_exception_of_a_script_has_its_line_and_a_traceback_on_standard_error(
    attempts: Attempts,
) -> None:
    tried = await run(attempts, "print('a')\n\ndef f():\n    return 1 / 0\n\nf()")

    [finding] = tried.findings
    assert (finding.line, finding.snippet) == (4, "    return 1 / 0")
    assert (tried.case.error_type, tried.case.exit_code) == ("ZeroDivisionError", 1)
    assert tried.case.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    "code", ["import os\nos._exit(0)", f"import os\nos.execv('/usr/bin/{PYTHON}', ['p', '-V'])"]
)
async def test_script_ends_well_whichever_way_it_gives_status_zero(attempts: Attempts, code: str) -> None:
    tried = await run(attempts, code)

    assert tried.verdict is Verdict.VALIDATED, tried.findings


async def test_processes_that_end_in_time_are_no_fault(attempts: Attempts) -> None:
    code = """
        import os, subprocess, sys
        if os.fork() == 0:
            print("child", flush=True)
        else:
            os.wait()
            print(subprocess.run(["python3.11", "-c", "print(6 * 7)"], capture_output=True, text=True).stdout)
    """

    tried = await run(attempts, code)

    assert (tried.verdict, tried.case.stdout) == (Verdict.VALIDATED, "child\n42\n\n"), tried.findings


async def test_declared_output_that_is_no_file_or_not_there_is_a_finding(attempts: Attempts) -> None:
    code = "import os\nos.symlink('/etc/passwd', 'link')\nos.mkdir('folder')"

    tried = await run(attempts, code, collect=["link", "folder", "gone.csv"])

    assert (tried.verdict, tried.rules) == (Verdict.FAILED, ["collect.missing"] * 3)
    assert [finding.message for finding in tried.findings] == [
        "The declared output 'link' is not a regular file.",
        "The declared output 'folder' is missing.",
        "The declared output 'gone.csv' is missing.",
    ]
    assert tried.case.status is CaseStatus.FAILED


async def test_declared_output_that_is_cut_is_a_finding(attempts: Attempts) -> None:
    tried = await run(attempts, "open('big', 'wb').truncate(20 * 2**20)", collect=["big"])

    assert (tried.verdict, tried.rules) == (Verdict.FAILED, ["collect.cut"])


async def test_imports_of_a_script_are_recorded(attempts: Attempts) -> None:
    tried = await run(attempts, "import json, socket")

    assert tried.verdict is Verdict.VALIDATED
    assert tried.result is not None
    seen = {(event.detail, event.allowed) for event in tried.result.units[0].events if event.kind == "import"}
    assert seen == {("json", True), ("socket", False)}


async def test_policy_that_judges_imports_holds_for_code_and_refuses_programs(attempts: Attempts) -> None:
    tried = await attempts.submit("script", {"code": "import socket"}, policy="default")

    assert (tried.verdict, tried.rules) == (Verdict.FAILED, ["policy.import"])
    with pytest.raises(RequestError, match="submit the script as code"):
        await attempts.submit("script", {"argv": [PYTHON, "-V"]}, policy="default")


async def test_shell_script_runs_with_its_tools_and_cleans_up(attempts: Attempts) -> None:
    text = """
        set -euo pipefail
        found=$(mktemp); trap 'rm -f "$found"' EXIT
        sort -u >"$found"
        ln -s "$found" link; wc -l <link; bash -c 'echo "$0"' inner; awk 'END { print NR }' "$found"
        """

    tried = await attempts.submit(
        "script",
        {"files": {"main.sh": textwrap.dedent(text)}, "argv": ["bash", "main.sh"], "stdin": "b\na\nb\n"},
        policy="shell",
    )

    assert (tried.verdict, tried.case.stdout) == (Verdict.VALIDATED, "2\ninner\n2\n"), tried.findings


async def test_shell_is_not_in_the_image_of_other_profiles_and_the_finding_says_where_it_is(
    attempts: Attempts,
) -> None:
    tried = await attempts.submit("script", {"files": {"m.sh": "true"}, "argv": ["bash", "m.sh"]})

    [finding] = tried.findings
    assert finding.rule == "sandbox.not_executed"
    assert finding.message == "'bash' isn't in the image."
    assert "Image python has python3.11, and no shell (policy shell has one)." in (finding.suggestion or "")
