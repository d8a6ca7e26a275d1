"""Generation on the command line up to the approval, with real containers and a scripted provider."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assayd.kinds import registry
from assayd_client import ClientError, Document, PlainClient
from assayd_client.cli.generate import GenerateOptions
from assayd_screens.session import GenerationInput, WizardSession
from assayd_screens.wizard import Wizard
from support.daemons.chosen import new_daemon
from support.daemons.daemon_process import BIN
from support.daemons.terminal import Terminal
from support.texts import guide
from support.texts.examples import example_submission

pytestmark = pytest.mark.engine

ON_TERMINAL = Path(__file__).parent / "golden" / "wizard_on_terminal.txt"
"""The first screen; `ASSAY_GOLDEN=write` takes it anew."""
PAGE = Path(__file__).parents[2] / "docs" / "generate.md"
PLAYER = """
import json, sys
from pathlib import Path

folder, asked = Path(sys.argv[1]), json.load(sys.stdin)
with (folder / "asked.jsonl").open("a") as file:
    file.write(json.dumps(asked) + "\\n")
place = len((folder / "asked.jsonl").read_text().splitlines()) - 1
print(json.dumps(json.loads((folder / "play.json").read_text())[place]))
"""
PATHS = ("/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2024/Q3/data.csv")
EXTRACTOR = """
import re

def extract(path: str) -> dict:
    found = re.search(r"/Q([1-4])/", path)
    quarter = int(found[1]) if found else 1
    return {"quarter": quarter, "start_month": 3 * quarter - 2, "end_month": END}
"""
RAISES = 'def extract(path: str) -> dict:\n    return {"quarter": int(path.split("/")[4])}\n'
COMPUTES = """
def extract(path: str) -> dict:
    quarter = int(path.split("/")[4])
    return {"quarter": quarter, "month": 3 * quarter}
"""


class Play:
    """A daemon with a scripted provider."""

    def __init__(self, engine: str) -> None:
        self.daemon = new_daemon(engine, settings={"POOL__DEFAULT_TARGET": "1"})
        self.folder = self.daemon.home / "play"
        self.folder.mkdir()
        (self.folder / "player.py").write_text(PLAYER)
        program = [sys.executable, str(self.folder / "player.py"), str(self.folder)]
        self.daemon.settings["REPAIR__PROVIDERS"] = json.dumps(
            {"played": {"type": "command", "argv": program}}
        )

    def answers(self, *answers: Document) -> None:
        """Set the provider's answers."""
        (self.folder / "asked.jsonl").unlink(missing_ok=True)
        (self.folder / "play.json").write_text(json.dumps(answers))

    @property
    def asked(self) -> list[Document]:
        """Return the provider's requests."""
        return [json.loads(line) for line in (self.folder / "asked.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def play(one_engine: str) -> Iterator[Play]:
    play = Play(one_engine)
    try:
        play.daemon.start()
        yield play
    finally:
        play.daemon.dispose()


@pytest.fixture
def client(play: Play) -> Iterator[PlainClient]:
    with play.daemon.client() as client:
        yield client


def code(text: str) -> Document:
    return {"code": text, "reason": "As asked."}


@pytest.mark.parametrize("kind", sorted(set(registry.list_own_kinds()) - {"solution"}))
def test_example_that_a_prompt_shows_is_validated_under_the_default_profile(
    client: PlainClient, kind: str
) -> None:
    attempt = client.submit(example_submission(registry.find_validator(kind)), wait_s=60)
    assert attempt["verdict"] == "validated", attempt["report"]["findings"]


def test_words_and_sample_paths_come_to_an_approved_extractor(
    play: Play, client: PlainClient, tmp_path: Path
) -> None:
    # Raises on every path; then gives another month than the case expects; then is right.
    wrong, right = EXTRACTOR.replace("END", "3 * quarter + 1"), EXTRACTOR.replace("END", "3 * quarter")
    play.answers(code(RAISES), code(wrong), code(right))
    words = "quarter folder should compute start and end month"
    case = json.dumps({"name": "third", "path": PATHS[1], "expected": {"end_month": 9}})
    out = tmp_path / "thirds.py"
    options = [option for path in PATHS for option in ("--sample-path", path)]
    done = play.daemon.assay(
        "generate", "extractor", words, *options, "--example", case, "--yes", "--out", out, "--json"
    )
    assert done.returncode == 0, done.stderr
    generation = json.loads(done.stdout)
    assert [one["verdict"] for one in generation["attempts"]] == ["failed", "failed", "validated"]
    assert generation["approved"] == {"name": "thirds", "version": 1}
    assert (generation["code"], generation["files"]) == (right, None)
    assert out.read_text() == right
    first, second, third = play.asked
    assert (first["kind"], first["attempt"], first["intent"]) == ("extractor", 1, words)
    assert "invalid literal" in second["prompt"]["user"]
    assert "expected at end_month: 9 received: 10" in third["prompt"]["user"]
    assert words in third["prompt"]["user"]
    step = client.generation_step(generation["id"], 3)
    assert json.loads(step["answer"])["code"] == right

    entry = client.library_entry("thirds", 1)
    assert entry["chain"] == [one["attempt_id"] for one in generation["attempts"]]
    assert entry["intent"] == words
    assert entry["submission"]["payload"]["code"] == right
    assert generation["id"] in play.daemon.assay("generation", "list").stdout
    shown = play.daemon.assay("generation", "show", generation["id"]).stdout
    assert shown.startswith(f"Request: {words}\n")
    assert "Approved: thirds@1" in shown
    prompt = play.daemon.assay("generation", "prompt", "last", "3").stdout
    assert words in prompt
    assert "======== answer of played ========" in prompt
    shown = play.daemon.assay("show", generation["attempt_id"])
    play.answers(code(right.replace("quarter)", "quarter )")))
    hinted = play.daemon.assay("generation", "hint", "last", "use a space")
    assert hinted.returncode == 0, hinted.stderr
    assert "4. validated" in hinted.stdout
    assert play.asked[0]["prompt"]["user"].count("use a space") == 1
    ended = play.daemon.assay("generation", "cancel", "last")
    assert (ended.returncode, ended.stderr[:7]) == (2, "assay: ")
    shown = play.daemon.assay("show", generation["attempt_id"])
    assert f"Request: {words}" in shown.stdout


@pytest.mark.system
def test_the_wizard_on_a_real_terminal_leads_to_an_approved_extractor(
    play: Play, client: PlainClient, tmp_path: Path
) -> None:
    right = EXTRACTOR.replace("END", "3 * quarter")
    play.answers(code(RAISES), code(right))
    options = [option for path in PATHS for option in ("--sample-path", path)]
    command = [
        str(BIN / "assay"),
        "--socket",
        str(play.daemon.socket),
        "generate",
        "extractor",
        "months of a quarter",
    ]
    terminal = Terminal(tmp_path)
    try:
        terminal.start([*command, *options, "--name", "on-terminal"])
        if os.environ.get("ASSAY_GOLDEN") == "write":
            ON_TERMINAL.write_text(terminal.wait_for("months of a quarter", "Generate", "Leave"))
        assert terminal.wait_for(ON_TERMINAL.read_text())
        terminal.keys("C-g")
        result = terminal.wait_for("Validation:", "Approve")
        assert "✓ Passed (2/2 paths" in result
        terminal.keys("Enter")
        terminal.wait_for("on-terminal")
        terminal.keys("Enter")
        assert "ended: 0" in terminal.wait_for("ended:")
    finally:
        terminal.dispose()
    assert client.library_entry("on-terminal", 1)["submission"]["payload"]["code"] == right


async def test_the_screens_lead_from_words_to_an_approved_extractor(play: Play, client: PlainClient) -> None:
    right = EXTRACTOR.replace("END", "3 * quarter")
    play.answers(code(RAISES), code(EXTRACTOR.replace("END", "quarter")), code(right))
    case = json.dumps({"name": "third", "path": PATHS[1], "expected": {"end_month": 9}})
    given = GenerateOptions(
        sample_paths=PATHS, files=(), database=None, examples=[case], inputs=None, options=()
    )
    asked = GenerationInput(kind="extractor", intent="quarter folder should compute start and end month")
    app = Wizard(WizardSession(str(play.daemon.socket)), asked=asked, given=given, name="by-screens")
    async with asyncio.timeout(120), app.run_test(size=(80, 24)) as pilot:
        for screen, key in (("Asking", "ctrl+g"), ("Result", "enter"), ("Line", "enter")):
            while type(app.screen).__name__ != screen:
                await pilot.pause(0.05)
            await pilot.press(key)
        while app.return_value is None:
            await pilot.pause(0.05)
    assert app.return_value.approved == "by-screens@1"
    entry = client.library_entry("by-screens", 1)
    assert entry["submission"]["payload"]["code"] == right
    assert len(entry["chain"]) == 3


def test_walk_of_the_documentation_does_what_it_says(play: Play, tmp_path: Path) -> None:
    player = play.folder / "player.py"
    [writer] = [block for block in guide.blocks(PAGE) if block.word == "writer.py"]
    environ = {**os.environ, "ASSAY_SOCKET": str(play.daemon.socket), "PATH": f"{BIN}:{os.environ['PATH']}"}
    printed = ""
    try:
        player.write_text(writer.text)
        for commands in guide.commands(PAGE):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands],
                cwd=tmp_path,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
            printed += done.stdout
    finally:
        player.write_text(PLAYER)
    for told in ("1. failed", "2. validated", "Approved: months@1", "the same", "Request: quarter folder"):
        assert told in printed


def test_next_version_is_listed_compared_and_exported(
    play: Play, client: PlainClient, tmp_path: Path
) -> None:
    versions = [EXTRACTOR.replace("END", end) for end in ("3 * quarter", "quarter * 3")]
    for version, text in enumerate(versions, 1):
        payload = {"code": text, "sample_paths": list(PATHS)}
        attempt = client.submit({"kind": "extractor", "payload": payload}, wait_s=60)
        done = play.daemon.assay("library", "approve", attempt["id"], "quarters")
        assert done.stdout == f"Approved: quarters@{version}\n"
        assert client.approve(attempt["id"], "quarters")["version"] == version
    listed = json.loads(play.daemon.assay("library", "list", "--json").stdout)["entries"]
    assert [one["version"] for one in listed if one["name"] == "quarters"] == [2]
    history = json.loads(play.daemon.assay("library", "history", "quarters", "--json").stdout)["entries"]
    assert [one["version"] for one in history] == [2, 1]
    diff = play.daemon.assay("library", "diff", "quarters").stdout
    assert (
        '+    return {"quarter": quarter, "start_month": 3 * quarter - 2, "end_month": quarter * 3}' in diff
    )
    out = tmp_path / "out.py"
    assert play.daemon.assay("library", "export", "quarters@1", "--out", out).returncode == 0
    assert out.read_text() == versions[0]
    assert play.daemon.assay("library", "show", "gone").returncode == 2
    assert play.daemon.assay("library", "remove", "quarters@1").stdout == "Removed: quarters@1\n"
    assert play.daemon.assay("library", "show", "quarters@1").returncode == 2
    assert play.daemon.assay("library", "remove", "quarters").stdout == "Removed: quarters@2\n"
    assert play.daemon.assay("library", "remove", "quarters").returncode == 2


def test_what_failed_is_not_approved(play: Play, client: PlainClient, tmp_path: Path) -> None:
    play.answers(*(code(COMPUTES.replace("4", str(place))) for place in (4, 5, 2)))
    out = tmp_path / "never.py"
    done = play.daemon.assay(
        "generate", "extractor", "words", "--sample-path", PATHS[0], "--yes", "--out", out
    )
    assert done.returncode == 1
    assert not out.exists()
    said = done.stdout.splitlines()
    assert any(line.startswith("The last attempt failed: ") and "ValueError" in line for line in said)
    assert any(line.startswith("Rules instead of code (computed_fields): ") for line in said)
    assert said[-1].startswith("Try again with a hint: assay generation hint ")
    generation = client.generations(limit=1)["generations"][0]
    assert generation["approved"] is None
    with pytest.raises(ClientError) as refused:
        client.approve_generation(generation["id"], "never")
    assert refused.value.code == "library.not_validated"


def test_words_and_a_database_come_to_an_approved_pipeline_that_is_committed(
    play: Play, client: PlainClient, tmp_path: Path
) -> None:
    database = tmp_path / "sales.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE sales (region TEXT, amount REAL)")
        connection.execute("INSERT INTO sales VALUES ('north', 10), ('north', 5)")
    create = "CREATE TABLE IF NOT EXISTS totals (region TEXT, total REAL);"
    good = f"{create} INSERT INTO totals SELECT region, sum(amount) FROM sales GROUP BY region;"
    wrong = good.replace("FROM sales", "FROM sale")
    steps = [{"name": "total", "type": "sql", "content": text} for text in (wrong, good)]
    play.answers({"steps": steps[:1], "reason": "a"}, {"steps": steps[1:], "reason": "b"})
    done = play.daemon.assay(
        "generate",
        "pipeline",
        "total by region",
        "--database",
        database,
        "--out",
        tmp_path / "steps",
        "--json",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = play.asked
    assert "sales (region TEXT, amount REAL)" in first["prompt"]["user"]
    assert "sales (region TEXT, amount REAL)" in second["prompt"]["user"]
    assert (tmp_path / "steps" / "01_total.sql").read_text() == good
    generation = json.loads(done.stdout)
    assert (generation["code"], generation["files"]) == (None, {"01_total.sql": good})
    result = client.artifact(generation["attempt_id"], "files/database.sqlite")
    assert result.startswith(b"SQLite format 3")

    approved = play.daemon.assay("library", "approve", generation["attempt_id"], "totals")
    assert approved.stdout == "Approved: totals@1\n"
    done = play.daemon.assay("pipeline", "commit", "totals@1", "--database", database)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT * FROM totals").fetchall() == [("north", 15.0)]

    done = play.daemon.assay("pipeline", "rollback", "totals", "--database", database)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("sales",)]


def test_events_tell_state_attempts_stages_and_the_end(play: Play, client: PlainClient) -> None:
    play.answers(code(EXTRACTOR.replace("END", "3 * quarter")))
    request = {"kind": "extractor", "intent": "words", "context": {"sample_paths": list(PATHS)}}
    generation = client.generate(**request)
    kinds = [event.kind for event in client.generation_events(generation["id"])]
    assert kinds[-1] == "finished"
    assert "attempt" in kinds


def test_feedback_on_fifth_chooses_what_the_next_prompt_holds(play: Play, client: PlainClient) -> None:
    play.answers(code(': twice s" a" s" b" s+ type ;\n'), code(": twice ( n -- n ) 2 * ;\n4 twice .\n"))
    made = client.generate(
        kind="fifth",
        intent="twice a number",
        context={"task_type": "html page", "model_source": "gpt-4o"},
    )
    assert [event.kind for event in client.generation_events(made["id"])][-1] == "finished"
    assert client.generation(made["id"])["outcome"] == "validated"
    first, second = (asked["prompt"]["user"] for asked in play.asked)
    assert first.index("Guide, html output") < first.index("Guide, stack discipline")
    assert "Known from similar models: Tends to s+." in first
    assert "Guide, buffer system" in second
    assert "Guide, stack discipline" in second
    assert "Guide, file io" not in second
    assert "Known from similar answers: Tends to s+." in second


FIFTH_WORKFLOWS = {
    "a word that is not there": (
        ": process-data ( addr u -- )\n  string-split\n  foreach\n    process-item\n  end-foreach ;\n",
        ("string-split", "foreach", "end-foreach"),
        (),
    ),
    "several things at once": (
        'include str.fs\n\n: build-greeting name greeting\n  greeting s" , " s+ name s+\n  allocate drop ;\n',
        ("require", "s+", "stack comment", "allocate"),
        ("Guide, buffer system", "Guide, stack discipline"),
    ),
}


@pytest.mark.parametrize("workflow", FIFTH_WORKFLOWS)
def test_each_workflow_of_fifth_ends_with_what_its_feedback_asked_for(
    play: Play, client: PlainClient, workflow: str
) -> None:
    wrong, told, sections = FIFTH_WORKFLOWS[workflow]
    play.answers(code(wrong), code(': greet ( -- ) ." hello" cr ;\ngreet\n'))
    case = {"name": "output", "expected": "hello\n"}
    made = client.generate(kind="fifth", intent=workflow, context={"cases": [case]})
    assert [event.kind for event in client.generation_events(made["id"])][-1] == "finished"

    generation = client.generation(made["id"])
    assert (generation["outcome"], len(generation["attempts"])) == ("validated", 2)
    first, second = (asked["prompt"]["user"] for asked in play.asked)
    report = client.attempt(generation["attempts"][0]["attempt_id"])["report"]
    assert all(text in second for text in (*sections, *report["feedback"]["add_emphasis"]))
    after_words = second.replace(wrong, "")  # rules and failure, without the code itself
    assert [text for text in told if text not in after_words] == []
    assert "hello" in first
    [case] = client.attempt(generation["attempt_id"])["report"]["runtime_results"]["cases"]
    assert (case["status"], case["stdout"]) == ("passed", "hello\n")
