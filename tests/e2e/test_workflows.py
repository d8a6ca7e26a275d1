"""Workflows of code nodes in real containers: parallel, killed, repaired, resumed, cancelled."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd_client import AsyncClient, Client, ClientError, Document, PlainClient
from support.daemons.ask import ask_as_nobody
from support.daemons.chosen import BEHIND_GATEWAY, new_daemon
from support.daemons.daemon_process import ROOT, DaemonProcess
from support.texts.workflows import SLOW, diamond, node, workflow

pytestmark = pytest.mark.engine

PAGE = ROOT / "docs/workflows.md"

PLAYER = """
import json, sys
from pathlib import Path

asked = json.load(sys.stdin)
Path(sys.argv[1], "asked.txt").write_text(asked["user"])
print(json.dumps({"code": Path(sys.argv[1], "answer.py").read_text(), "reason": "As asked."}))
"""
ONE = workflow([node("a", "result: int = 1")], {"x": "a.result"})
SLEEPER = workflow([node("a", SLOW.format(seconds=20) + "result: int = 1")], {"x": "a.result"})


@pytest.fixture(scope="module")
def daemon(one_engine: str) -> Iterator[DaemonProcess]:
    made = new_daemon(one_engine, settings={"POOL__DEFAULT_TARGET": "2", "SOCKET_MODE": "0666"})
    made.home.chmod(0o755)
    (made.home / "player.py").write_text(PLAYER)
    argv = [sys.executable, str(made.home / "player.py"), str(made.home)]
    made.settings["REPAIR__PROVIDERS"] = json.dumps({"played": {"type": "command", "argv": argv}})
    try:
        made.start()
        yield made
    finally:
        made.dispose()


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[PlainClient]:
    with daemon.client() as client:
        yield client


def ended(client: PlainClient, begun: Document) -> Document:
    while (found := client.workflow(begun["id"], wait_s=30))["verdict"] is None:
        pass
    return found


def states(found: Document) -> dict[str, str]:
    return {one["id"]: one["state"] for one in found["nodes"]}


def attempts(found: Document) -> dict[str, str]:
    return {one["id"]: one["attempt_id"] for one in found["nodes"]}


def test_diamond_runs_its_branches_side_by_side(client: PlainClient) -> None:
    found = ended(client, client.start_workflow(diamond(slow_s=2.0)))

    ids = attempts(found)
    slow, quick = client.attempt(ids["branch0"]), client.attempt(ids["branch1"])
    assert (found["verdict"], len(found["nodes"])) == ("validated", 12)
    assert client.workflow_outputs(found["id"])["outputs"] == {"total": 105}
    assert quick["finished_at"] < slow["finished_at"] < client.attempt(ids["join"])["started_at"]
    assert slow["labels"] == {"workflow": found["id"], "node": "branch0"}


def test_killed_daemon_goes_on_and_repeats_no_verdict(daemon: DaemonProcess) -> None:
    with daemon.client() as client:
        begun = client.start_workflow(diamond(3, slow_s=4.0))
        for event in client.workflow_events(begun["id"]):
            now = states(event.body)
            if now["branch1"] == now["branch2"] == "validated":
                break
        assert now["branch0"] == "running"

    daemon.kill()
    daemon.start()

    with daemon.client() as client:
        found = ended(client, begun)
        assert client.workflow_outputs(found["id"])["outputs"] == {"total": 21}
    ids = attempts(found)
    assert (found["verdict"], len(set(ids.values()))) == ("validated", 5)
    runs = daemon.rows(
        "SELECT attempt_id, count(*) AS runs FROM runs JOIN labels USING (attempt_id) "
        "WHERE labels.name = 'workflow' AND labels.value = ? GROUP BY attempt_id",
        found["id"],
    )
    cut_off = 1 if BEHIND_GATEWAY else 2  # a gateway's node goes on with it
    assert {row["attempt_id"]: row["runs"] for row in runs} == {
        each: cut_off if each == ids["branch0"] else 1 for each in ids.values()
    }


def test_failure_ends_its_dependents_alone_and_resume_runs_only_what_is_needed(client: PlainClient) -> None:
    failed = ended(client, client.start_workflow(diamond(3, broken=[1])))

    assert (failed["verdict"], failed["detail"]) == ("failed", "outputs are missing: branch1 failed")
    assert states(failed) == {
        "load": "validated",
        "branch0": "validated",
        "branch1": "failed",
        "branch2": "validated",
        "join": "skipped",
    }
    with pytest.raises(ClientError, match="the workflow has no outputs: it is failed"):
        client.workflow_outputs(failed["id"])

    resumed = ended(client, client.resume_workflow(failed["id"], document=diamond(3)))

    assert (resumed["verdict"], resumed["resumes"]) == ("validated", failed["id"])
    assert [one["id"] for one in resumed["nodes"] if one["reused"]] == ["load", "branch0", "branch2"]
    assert attempts(resumed)["load"] == attempts(failed)["load"]

    changed = ended(
        client, client.resume_workflow(resumed["id"], inputs={"load": {"n": 5}})
    )  # every result depends on it

    assert not any(one["reused"] for one in changed["nodes"])
    assert client.workflow_outputs(changed["id"])["outputs"] == {"total": 33}


def test_failed_node_is_repaired_with_what_the_others_give_and_expect(
    daemon: DaemonProcess, client: PlainClient
) -> None:
    (daemon.home / "answer.py").write_text("rows: list[int]\nresult: int = sum(rows) + 1\n")

    found = ended(client, client.start_workflow(diamond(3, broken=[1]), repair={"provider": "played"}))

    repaired = next(one for one in found["nodes"] if one["id"] == "branch1")
    assert (found["verdict"], repaired["state"]) == ("validated", "validated")
    assert client.workflow_outputs(found["id"])["outputs"] == {"total": 21}
    assert client.repair_state(repaired["repair_id"])["attempts"][-1]["attempt_id"] == repaired["attempt_id"]
    asked = (daemon.home / "asked.txt").read_text()
    assert "Its input 'rows' is load.result (that result is declared as list[int]), e.g. [0,1,2,3]" in asked
    assert "branch1.result is the input 'part1' of node 'join', declared as int." in asked


def test_repair_that_finds_nothing_leaves_the_node_failed(daemon: DaemonProcess, client: PlainClient) -> None:
    (daemon.home / "answer.py").write_text("rows: list[int]\nresult: int = 1 // len(rows[:0])\n")
    wish = {"provider": "played", "max_attempts": 1}

    found = ended(client, client.start_workflow(diamond(2, broken=[1]), repair=wish))

    assert states(found) == {
        "load": "validated",
        "branch0": "validated",
        "branch1": "failed",
        "join": "skipped",
    }


def test_wrong_types_are_refused_before_anything_runs(daemon: DaemonProcess, client: PlainClient) -> None:
    wrong = diamond(2).replace("part1: int", "part1: str")

    found = client.start_workflow(wrong)

    assert (found["verdict"], found["detail"]) == ("failed", "the check found 1 error; nothing ran")
    [finding] = found["findings"]
    assert (finding["rule"], finding["node"], finding["snippet"]) == (
        "workflow.type",
        "join",
        "      part1: str",
    )
    assert "(line 24), but branch1.result is int (line 18)" in finding["message"]
    assert set(states(found).values()) == {"skipped"}
    assert daemon.rows("SELECT * FROM labels WHERE name = 'workflow' AND value = ?", found["id"]) == []


def test_part_that_a_result_lacks_fails_the_node_that_needs_it(client: PlainClient) -> None:
    text = workflow(
        [
            node("a", "result: dict = {'left': [1, (2, 3)]}"),
            node("b", "x: int\nresult: int = x", {"x": "a.result.left.1.0"}),
            node("c", "x: int\nresult: int = x", {"x": "a.result.right"}),
        ],
        {"b": "b.result", "c": "c.result"},
    )

    found = ended(client, client.start_workflow(text))

    assert states(found) == {"a": "validated", "b": "validated", "c": "failed"}
    assert found["nodes"][2]["detail"] == "a.result has no 'right'; it has the keys left"
    assert found["nodes"][2]["attempt_id"] is None


def test_library_entries_are_nodes_of_a_fixed_version(client: PlainClient) -> None:
    submission = {"kind": "code", "payload": {"code": "n: int\nresult: int = n + 1", "inputs": {"n": 1}}}
    attempt = client.submit(submission, wait_s=60)
    client.approve(attempt["id"], "plus-one")
    text = "nodes: [{id: a, library: plus-one, inputs: {n: 4}}]\noutputs: {x: a.result}\n"

    found = ended(client, client.start_workflow(text))

    assert found["nodes"][0]["library"] == "plus-one@1"
    assert client.workflow_outputs(found["id"])["outputs"] == {"x": 5}
    with pytest.raises(ClientError, match="your library has no plus-one@2"):
        client.check_workflow(text.replace("plus-one", "plus-one@2"))


def test_cancelling_ends_the_running_attempt(client: PlainClient) -> None:
    begun = client.start_workflow(SLEEPER)
    for event in client.workflow_events(begun["id"]):
        if states(event.body) == {"a": "running"}:
            break

    client.cancel_workflow(begun["id"])

    found = ended(client, begun)
    assert (found["verdict"], states(found)) == ("cancelled", {"a": "cancelled"})
    assert client.attempt(attempts(found)["a"], wait_s=30)["verdict"] == "cancelled"
    with pytest.raises(ClientError, match="the workflow has ended"):
        client.cancel_workflow(begun["id"])


def test_times_bound_a_node_and_the_whole(client: PlainClient) -> None:
    endless = "while True: pass\nresult: int = 1"
    bounded = workflow([node("a", endless, timeout_s=1)], {"x": "a.result"})
    whole = workflow([node("a", SLOW.format(seconds=20) + "result: int = 1")], {"x": "a.result"}, timeout_s=1)

    of_node, of_whole = (ended(client, client.start_workflow(text)) for text in (bounded, whole))

    assert (of_node["verdict"], of_node["nodes"][0]["detail"]) == ("failed", "sandbox.timeout")
    assert (of_whole["verdict"], states(of_whole)) == ("failed", {"a": "cancelled"})
    assert of_whole["nodes"][0]["detail"] == "the workflow took longer than 1 s"


def test_bundle_refers_to_the_attempts(client: PlainClient) -> None:
    found = ended(client, client.start_workflow(ONE))

    content = client.workflow_bundle(found["id"])

    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        files = {Path(one.name).name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    assert files["workflow.yaml"].decode() == ONE
    assert json.loads(files["result.json"]) == found
    [reference] = json.loads(files["attempts.json"]).values()
    attempt = client.attempt(attempts(found)["a"])
    report = next(one for one in attempt["artifacts"] if one["name"].startswith("validation_"))
    assert (reference["verdict"], reference["report_sha256"]) == ("validated", report["sha256"])
    assert client.workflow_bundle(found["id"]) == content


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "", {}, 422, "document: Field required"),
        ("POST", "", {"document": ONE, "more": 1}, 422, "more: Extra inputs are not permitted"),
        ("POST", "", {"document": ONE, "inputs": {"b": {"x": 1}}}, 422, "the workflow has no node 'b'"),
        ("POST", "", {"document": ONE, "repair": {"provider": "none"}}, 422, "unknown provider 'none'"),
        ("POST", "", {"document": "policy: none\n" + ONE}, 422, "none"),
        ("POST", "", {"document": "nodes: [{id: a, library: b}]\noutputs: {x: a.result}"}, 422, "has no b"),
        ("POST", "", {"document": "\ud800"}, 400, "lone surrogate"),
        ("POST", "", {"document": " " * (2**20 + 1)}, 422, "document: String should have at most"),
        ("POST", "/check", {"document": 1}, 422, "document: Input should be a valid string"),
        ("GET", "/none", None, 404, "workflow none doesn't exist"),
        ("GET", "/none/outputs", None, 404, "workflow none doesn't exist"),
        ("GET", "/none/bundle", None, 404, "workflow none doesn't exist"),
        ("GET", "/none/events", None, 404, "workflow none doesn't exist"),
        ("POST", "/none/cancel", None, 404, "workflow none doesn't exist"),
        ("POST", "/none/resume", {}, 404, "workflow none doesn't exist"),
        ("GET", "?limit=0", None, 422, "limit"),
    ],
)
def test_bad_request_is_refused_and_leaves_nothing(
    daemon: DaemonProcess, method: str, path: str, body: object, status: int, message: str
) -> None:
    before = daemon.rows("SELECT id FROM workflows")

    with daemon.http() as http:
        content = None if body is None else json.dumps(body)
        answer = http.request(method, f"/v1/workflows{path}", content=content)

    assert (answer.status_code, message in answer.json()["error"]["message"]) == (status, True), answer.text
    assert daemon.rows("SELECT id FROM workflows") == before


def test_another_user_knows_nothing_of_a_workflow(daemon: DaemonProcess, client: PlainClient) -> None:
    found = ended(client, client.start_workflow(ONE))

    for method, path in [("GET", ""), ("GET", "/outputs"), ("POST", "/cancel"), ("POST", "/resume")]:
        status, _ = ask_as_nobody(daemon, method, f"/v1/workflows/{found['id']}{path}")
        assert status == 404
    assert ask_as_nobody(daemon, "GET", "/v1/workflows")[1]["workflows"] == []


def test_command_line_checks_runs_shows_and_resumes(daemon: DaemonProcess, tmp_path: Path) -> None:
    file, values = tmp_path / "flow.yaml", tmp_path / "values.json"
    file.write_text(diamond(2))
    values.write_text('{"load": {"n": 3}}')

    checked = daemon.assay("workflow", "check", file)
    wrong = daemon.assay("workflow", "check", file, "--set", "load.n=three")
    run = daemon.assay("workflow", "run", file, "--input", values)
    shown = daemon.assay("workflow", "show", "last")
    listed = daemon.assay("workflow", "list")
    resumed = daemon.assay("workflow", "resume", "last", "--set", "load.n=2", "--json")

    assert (checked.returncode, checked.stdout) == (0, "4 nodes, 0 errors\n")
    assert (wrong.returncode, wrong.stdout) == (1, "4 nodes, 1 error\n")
    assert "error[workflow.type] The input 'n' of node 'load' is int (line 5)" in wrong.stderr
    assert f"--> {file}:5" in wrong.stderr
    assert (run.returncode, json.loads(run.stdout)) == (0, {"total": 7})
    assert run.stderr.splitlines()[0] == "load  validated"
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [
        ["load", "validated"],
        ["branch0", "validated"],
        ["branch1", "validated"],
        ["join", "validated"],
        ["output", "total"],
    ]
    assert listed.stdout.splitlines()[0].split("\t")[1:4] == ["diamond", "validated", "4/4"]
    assert (resumed.returncode, json.loads(resumed.stdout)["values"]) == (0, {"total": 3})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "/none.yaml"], "/none.yaml: No such file or directory"),
        (["run", "{file}", "--set", "load"], "--set must be key=value, not 'load'"),
        (["run", "{file}", "--set", "load=1"], "inputs of 'load' must be an object"),
        (["run", "{file}", "--set", "lod.n=1"], "the workflow has no node 'lod'"),
        (["run", "{file}", "--input", "{file}"], "flow.yaml: Expecting value"),
        (["run", "{file}", "--repair", "none"], "unknown provider 'none'"),
        (["show", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"], "doesn't exist"),
        (["cancel", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"], "doesn't exist"),
        (["resume", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"], "doesn't exist"),
    ],
)
def test_command_line_names_what_is_wrong(
    daemon: DaemonProcess, tmp_path: Path, arguments: list[str], message: str
) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(diamond(2))

    done = daemon.assay("workflow", *(each.format(file=file) for each in arguments))

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def shown_commands() -> list[tuple[str, str]]:
    """Return the page's commands with the output that it shows."""
    blocks = re.findall(r"^```console\n\$ assay (.+)\n((?:.*\n)*?)^```$", PAGE.read_text(), re.MULTILINE)
    assert len(blocks) == 3
    return blocks


@pytest.mark.parametrize(("command", "output"), shown_commands(), ids=lambda text: text.split("\n")[0][:24])
def test_page_shows_the_real_output_of_its_commands(daemon: DaemonProcess, command: str, output: str) -> None:
    done = daemon.assay(*shlex.split(command))

    # Which of two branches ends first varies; messages are on standard error, results on standard output.
    printed = [line.rstrip() for line in (done.stderr + done.stdout).splitlines()]
    assert sorted(printed) == sorted(output.splitlines())


async def test_awaited_client_runs_the_program_of_the_page(daemon: DaemonProcess) -> None:
    async with AsyncClient(daemon.socket) as client:
        checked = await client.check_workflow(ONE)
        begun = await client.start_workflow(ONE)
        kinds = [event.kind async for event in client.workflow_events(begun.id)]
        ended = await client.workflow(begun.id, wait_s=60)
        outputs = await client.workflow_outputs(begun.id)
        listed = await client.workflows(limit=1)

    assert (checked.runnable, [node.id for node in checked.nodes]) == (True, ["a"])
    assert (kinds[-1], ended.verdict, outputs.outputs) == ("finished", "validated", {"x": 1})
    assert [each.id for each in listed.workflows] == [begun.id]


def test_typed_client_runs_the_program_of_the_page(daemon: DaemonProcess) -> None:
    with Client(daemon.socket) as client:
        begun = client.start_workflow((ROOT / "examples/workflow/sales.yaml").read_text())
        ended = client.workflow(begun.id, wait_s=60)

        assert ended.verdict == "validated"
        assert client.workflow_outputs(ended.id).outputs["north"] == 15.5
