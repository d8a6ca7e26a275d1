"""A type checker knows the fields of answers: it reports a misspelt field and accepts a correct one."""

import sys
from pathlib import Path
from subprocess import run

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
from assayd_client import AsyncClient, Client, PlainClient

def blocking(client: Client) -> None:
    attempt = client.submit({"kind": "code"}, wait_s=1)
    attempt.verdict
    attempt.verdcit
    client.submit({"kind": "code"}, wait=1)
    for result in client.batch_results("b"):
        result.attempt.verdict

async def awaited(client: AsyncClient) -> None:
    attempt = await client.attempt("id")
    attempt.report and attempt.report.findings[0].rule
    attempt.report and attempt.report.findings[0].rulle
    async for event in client.events("id"):
        event.kind

def plain(client: PlainClient) -> None:
    client.attempt("id")["anything"]
"""


def test_misspelt_fields_are_found_and_right_ones_pass(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
    command = [sys.executable, "-m", "mypy", *options, "--no-error-summary", tmp_path / "program.py"]

    done = run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)

    found = [line.partition("program.py:")[2] for line in done.stdout.splitlines() if ": error: " in line]
    assert [(line.partition(":")[0], line.rpartition("[")[2]) for line in found] == [
        ("6", "attr-defined]"),
        ("7", "call-arg]"),
        ("9", "union-attr]"),
        ("14", "attr-defined]"),
    ], done.stdout + done.stderr
    assert ("verdcit" in found[0], "rulle" in found[3]) == (True, True)
