"""Steps that the static rules would refuse, run without those rules."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from assayd.model.report import Judgement
from assayd.model.run import Limits, RunResult, derive_attempt_limits
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.sandbox.sandbox import Sandbox
from assayd_pipeline.payload import PipelinePayload
from assayd_pipeline.validator import validator
from support.engines.oci import make_one_engine
from support.engines.sandboxes import run, sandbox_on

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

POLICY = load_policies([get_shared_data_path("policies")]).get("pipeline")
LIMITS = derive_attempt_limits(POLICY, Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0))
SECRET = "INSERT INTO t VALUES ('secret row')"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    engine = make_one_engine(request)
    try:
        async with sandbox_on(engine, ready=2) as made:
            yield made
    finally:
        await engine.close()


async def run_steps(sandbox: Sandbox, *steps: tuple[str, str], **more: object) -> tuple[RunResult, Judgement]:
    """Run steps without their static stages."""
    named = [{"name": f"s{n}", "type": kind, "content": text} for n, (kind, text) in enumerate(steps, 1)]
    payload = PipelinePayload.model_validate({"steps": named, **more})
    result = await run(sandbox, validator.plan(payload, POLICY, LIMITS))
    return result, validator.judge(payload, POLICY, result)


def stdout(judgement: Judgement) -> list[str]:
    return [case.stdout for case in judgement.cases]


def rules(judgement: Judgement) -> list[str]:
    return [finding.rule for finding in judgement.stage_findings["sandbox"]]


def database(tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "given.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute(SECRET)
        connection.commit()
    return {"base64": base64.b64encode(path.read_bytes()).decode()}


async def test_bash_steps_find_no_trace_of_the_database(sandbox: Sandbox, tmp_path: Path) -> None:
    look = (
        "grep -rlsa -e '[s]ecret row' -e '[S]QLite format 3' /sandbox /dev/shm /tmp /proc/1/fd "
        "/proc/1/environ /proc/1/mem /proc/1/maps; echo .database .[!.]* *; "
        "{ echo junk > .database; } && echo taken"
    )
    _, judgement = await run_steps(
        sandbox,
        ("sql", "SELECT count(*) FROM t"),
        ("bash", look),
        ("sql", "SELECT a FROM t"),
        database=database(tmp_path),
    )

    assert rules(judgement) == []
    _, seen, last = stdout(judgement)
    assert seen.splitlines() == [".database .[!.]* data logs scripts tmp", "taken"]
    assert last == "a\nsecret row\n"


async def test_a_step_cannot_change_the_script_of_a_later_one(sandbox: Sandbox) -> None:
    _, judgement = await run_steps(
        sandbox,
        ("bash", "for n in 2 3; do printf 'echo forged\\n' > scripts/0${n}_s$n.sh; done"),
        ("bash", "echo checked"),
        ("bash", "cat scripts/01_s1.sh | head -c 8; echo; echo checked too"),
    )

    assert rules(judgement) == []
    assert stdout(judgement)[1:] == ["checked\n", "for n in\nchecked too\n"]


async def test_a_process_that_stays_fails_its_step_and_meets_no_other(sandbox: Sandbox) -> None:
    stays = "(trap '' TERM HUP; while :; do echo late >> data/late; done) > /dev/null 2>&1 & disown; exit 0"
    result, judgement = await run_steps(sandbox, ("bash", stays), ("bash", "echo never"))

    assert rules(judgement) == ["sandbox.left_processes"]
    assert [case.status for case in judgement.cases] == ["error", "skipped"]
    assert len(result.units) == 1


async def test_a_trap_does_not_outlive_the_deadline(sandbox: Sandbox) -> None:
    step = {"name": "s", "type": "bash", "content": "trap 'echo caught' EXIT TERM; while :; do :; done"}
    payload = PipelinePayload.model_validate({"steps": [step]})
    result = await run(sandbox, validator.plan(payload, POLICY, replace(LIMITS, unit_timeout_s=0.5)))

    judgement = validator.judge(payload, POLICY, result)
    assert rules(judgement) == ["sandbox.timeout"]
    assert stdout(judgement) == [""]


async def test_a_step_inherits_nothing_and_cannot_touch_the_runner(sandbox: Sandbox) -> None:
    probe = (
        "for n in {3..9}; do { echo forged >&$n; } 2> /dev/null && echo open $n; done\n"
        "for f in environ mem maps; do cat /proc/1/$f > /dev/null 2>&1 && echo read $f; done\n"
        "{ echo x > /proc/1/fd/1; } 2> /dev/null && echo wrote; kill -9 1; kill -STOP 1; echo alive; set"
    )
    _, judgement = await run_steps(sandbox, ("bash", probe), ("sql", "SELECT 1"))

    lines = stdout(judgement)[0].splitlines()
    assert lines[0] == "alive"
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert not {name for name in names if name.startswith(("ASSAY", "PYTHON", "LD_"))}
    assert judgement.cases[1].status == "passed"


async def test_a_link_among_the_results_is_not_followed_and_fails_the_run(sandbox: Sandbox) -> None:
    result, judgement = await run_steps(sandbox, ("bash", "cp -s /etc/passwd data/users.txt"))

    assert rules(judgement) == ["outputs.incomplete"]
    assert result.outputs == ()


async def test_more_files_than_may_leave_fail_the_run(sandbox: Sandbox) -> None:
    _, judgement = await run_steps(sandbox, ("bash", "for n in {1..105}; do echo x > data/$n; done"))

    assert set(rules(judgement)) == {"outputs.incomplete"}


async def test_a_disk_filled_in_silence_is_the_next_steps_disk_limit(sandbox: Sandbox) -> None:
    fills = "for n in {1..9}; do cat /dev/zero > data/$n 2> /dev/null; done; true"
    result, judgement = await run_steps(sandbox, ("bash", fills), ("sql", "SELECT 1"))

    assert result.outcome.cause == "disk_limit"
    assert rules(judgement) == ["sandbox.disk_limit"]


async def test_files_and_the_database_come_out_when_changed_and_only_then(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    result, judgement = await run_steps(
        sandbox,
        (
            "bash",
            "cat data/a > data/b; echo more >> data/c; echo x > tmp/t; echo x > top; cat data/a > data/same",
        ),
        ("sql", "INSERT INTO t VALUES ('new')"),
        database=database(tmp_path),
        files={"data/a": "a\n", "data/c": "c\n", "data/same": "a\n"},
    )

    assert rules(judgement) == []
    found = {output.name: output.content for output in result.outputs}
    assert found.keys() == {"database.sqlite", "data/b", "data/c", "top"}
    assert (found["data/b"], found["data/c"]) == (b"a\n", b"c\nmore\n")


async def test_output_of_a_step_is_there_for_the_next(sandbox: Sandbox) -> None:
    _, judgement = await run_steps(
        sandbox,
        ("bash", "echo out; echo err >&2"),
        ("sql", "SELECT 1 AS one, 'x' AS two"),
        ("bash", "cat logs/01_s1.out logs/01_s1.err; cut -f2 logs/02_s2.out"),
    )

    assert stdout(judgement)[2] == "out\nerr\ntwo\nx\n"
