"""Pages with a scripted daemon."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assayd_client import NotFound
from assayd_console.guard import SessionStore
from assayd_console.pages.attempts import MAX_TEXTS
from assayd_console.pages.batches import CsvWriter
from assayd_console.pages.chains import MAX_DIFF_LINES, iter_steps, parse_diff
from assayd_console.pages.reference import explain_import
from assayd_console.pages.submit import read_submission
from assayd_console.serving import build_console

HOST = "127.0.0.1:8737"
HOSTILE = "</pre><script>alert(1)</script>\u202e\x1b[2J"
GOLDEN = Path(__file__).parents[2] / "golden"
KIND = {
    "kind": "code",
    "default_policy": "code",
    "stages": ["syntax"],
    "rules": [],
    "example": {"code": "x = 1", "inputs": {"a": 1}},
    "writers": ["claude"],
    "context_schema": {
        "properties": {
            "cases": {"type": "array", "items": {"properties": {"name": {"type": "string"}}}},
        }
    },
    "payload_schema": {
        "properties": {
            "code": {"type": "string", "description": "The code."},
            "inputs": {"type": "object"},
            "paths": {"type": "array", "items": {"type": "string"}},
            "strict": {"type": "boolean"},
        },
        "required": ["code"],
    },
}


class Told:
    """Answers by path, and records requests."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.sent: list[tuple[str, object]] = []

    async def ask(self, request: Any) -> Any:
        if request.method == "POST":
            self.sent.append((request.path, request.document))
        if request.path not in self._answers:
            raise NotFound("not_found", f"there is no {request.path}", status=404)
        return self._answers[request.path]

    def know(self, path: str, answer: Any) -> None:
        self._answers[path] = answer

    async def request_bytes(self, request: Any) -> bytes:
        return json.dumps(await self.ask(request)).encode()

    async def events(self, request: Any) -> AsyncIterator[Any]:
        for event in ():
            yield event

    async def kinds(self) -> list[Any]:
        return [KIND]

    async def close(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def logged_in(answers: dict[str, Any]) -> AsyncIterator[tuple[httpx.AsyncClient, Told]]:
    told, sessions = Told(answers), SessionStore()
    app = build_console(told, sessions, frozenset({HOST}))  # type: ignore[arg-type]
    headers = {"Accept": "text/html", "Origin": f"http://{HOST}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as client:
        await client.post("/login", content=sessions.offer())
        yield client, told


def fix(number: int, code: str, **changes: object) -> dict[str, object]:
    return {
        "number": number,
        "attempt_id": f"01{number}",
        "strategy": "fix",
        "original_error": HOSTILE,
        "fix_reason": HOSTILE,
        "patched_code": code,
        "diff": None,
        "duplicate": False,
        "verdict": "failed",
        "duration_ms": 5.0,
        "input_tokens": 10,
        "output_tokens": 20,
        **changes,
    }


def chain(**changes: object) -> dict[str, object]:
    return {
        "id": "01R",
        "attempt_id": "01A",
        "kind": "code",
        "provider": "rules",
        "state": "finished",
        "outcome": "exhausted",
        "detail": HOSTILE,
        "max_attempts": 3,
        "started_at": "2026-05-04T10:20:30.000000Z",
        "finished_at": None,
        "hint": HOSTILE,
        "hints": [],
        "intent": HOSTILE,
        "approved": None,
        "generation_id": None,
        "fallback": None,
        "attempts": [fix(1, "a\nb"), fix(2, f"a\n{HOSTILE}")],
        **changes,
    }


@pytest.mark.parametrize(
    ("path", "answers"),
    [
        ("/repairs/01R", {"/v1/repairs/01R": chain()}),
        ("/generations/01R", {"/v1/generations/01R": chain(outcome="validated")}),
        (
            "/repairs/01R/steps/1",
            {
                "/v1/repairs/01R/steps/1": {
                    "provider": "p",
                    "asked_at": "2026-05-04T10:20:30Z",
                    "system": HOSTILE,
                    "user": HOSTILE,
                    "answer": HOSTILE,
                    "reason": HOSTILE,
                }
            },
        ),
    ],
)
async def test_what_models_and_guests_wrote_is_text_on_the_pages_of_chains(path, answers) -> None:
    async with logged_in(answers) as (client, _):
        page = (await client.get(path)).text

    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert not set(page) & set("\u202e\x1b")


def hostile(value: Any) -> Any:
    """Return a document whose free texts are hostile."""
    free = {
        "message",
        "suggestion",
        "snippet",
        "stdout",
        "stderr",
        "traceback",
        "name",
        "retry_context",
        "host",
    }
    if isinstance(value, dict):
        return {
            key: HOSTILE if key in free and isinstance(part, str) else hostile(part)
            for key, part in value.items()
        }
    return [hostile(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("golden", ["failed_at_run", "refused", "broken", "validated"])
async def test_hostile_report_is_text_wherever_it_is_shown(golden: str) -> None:
    attempt = hostile(json.loads((GOLDEN / f"{golden}.json").read_text()))
    attempt |= {"id": "01A", "artifacts": [], "labels": {"k": HOSTILE}, "intent": HOSTILE}
    for case in ((attempt["report"] or {}).get("runtime_results") or {}).get("cases", ()):
        case["preview"] = HOSTILE
    answers = {"/v1/attempts/01A": attempt, "/v1/attempts/01A/repairs": {"repairs": []}}
    async with logged_in(answers) as (client, _):
        page = (await client.get("/attempts/01A")).text

    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert not set(page) & set("\u202e\x1b")


@pytest.mark.parametrize(("score", "shown"), [(2 / 3, "score 0.667 (separated)"), (None, "score")])
async def test_score_of_hidden_tests_is_shown_if_there_is_one(score: float | None, shown: str) -> None:
    attempt = json.loads((GOLDEN / "failed_at_run.json").read_text())
    attempt |= {"id": "01A", "artifacts": []}
    attempt["report"] |= {"score": score, "integrity": None if score is None else "separated"}
    answers = {"/v1/attempts/01A": attempt, "/v1/attempts/01A/repairs": {"repairs": []}}
    async with logged_in(answers) as (client, _):
        page = (await client.get("/attempts/01A")).text

    assert (shown in page) == (score is not None)


async def test_what_there_is_not_is_told_with_its_status() -> None:
    async with logged_in({}) as (client, _):
        page = await client.get("/attempts/01A")

    assert (page.status_code, "there is no /v1/attempts/01A" in page.text) == (404, True)


async def test_file_of_a_bundle_is_handed_out_and_never_shown() -> None:
    answers = {"/v1/attempts/01A/artifacts/files/x.html": HOSTILE}
    async with logged_in(answers) as (client, _):
        answer = await client.get("/attempts/01A/files/files/x.html")

    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="x.html"'


@pytest.mark.parametrize("address", ["/repairs/01R", "/generations/01R"])
async def test_live_chain_sends_its_answers_and_ends(address: str) -> None:
    async with logged_in({f"/v1{address}": chain(outcome="validated")}) as (client, _):
        sent = (await client.get(f"{address}/live")).text

    assert "event: progress\n" in sent
    assert "Answer 2" in sent
    assert sent.endswith("event: end\ndata: \n\n")


async def test_hint_begins_a_new_repair_of_the_same_attempt() -> None:
    answers = {"/v1/repairs/01R": chain(), "/v1/attempts/01A/repair": {"id": "01S"}}
    async with logged_in(answers) as (client, told):
        answer = await client.post("/repairs/01R/hint", data={"hint": "use b", "fresh": "on"})

    assert answer.headers["location"] == "/repairs/01S"
    assert told.sent == [("/v1/attempts/01A/repair", {"provider": "rules", "hint": "use b", "fresh": True})]


async def test_form_that_is_refused_is_shown_again_with_what_was_typed() -> None:
    async with logged_in({"/v1/policies": {"policies": []}}) as (client, _):
        page = await client.post(
            "/submit", data={"kind": "code", "payload.code": "y = 2", "payload.inputs": "{"}
        )

    assert page.status_code == 422
    assert "payload.inputs isn&#39;t valid JSON" in page.text
    assert "y = 2" in page.text


async def test_attempt_is_edited_and_submitted_again_as_the_one_that_follows_it() -> None:
    attempt = json.loads((GOLDEN / "refused.json").read_text()) | {"id": "01A", "kind": "code"}
    attempt["artifacts"] = [{"name": "submission_1.json", "bytes": 100, "sha256": "0" * 64}]
    submitted = {
        "payload": {"code": "import os\n", "inputs": {"a": 1}},
        "policy": "code",
        "labels": {"who": "polar"},
        "overrides": {"resources": {"timeout_s": 5}, "sql": {"rows": 1}},
    }
    answers = {
        "/v1/attempts/01A": attempt,
        "/v1/attempts/01A/artifacts/submission_1.json": submitted,
        "/v1/policies": {"policies": [{"name": "code", "resources": {"timeout_s": 60.0}}]},
        "/v1/attempts": {"id": "01B"},
    }
    async with logged_in(answers) as (client, told):
        page = (await client.get("/submit?parent=01A")).text
        form = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', page))
        texts = dict(re.findall(r'<textarea [^>]*name="([^"]+)"[^>]*>\n?([^<]*)</textarea>', page))
        typed = {name: html.unescape(text) for name, text in (form | texts).items()}
        answer = await client.post(
            "/submit", data=typed | {"payload.code": "import json\n", "policy": "code"}
        )

    first = attempt["report"]["findings"][0]
    assert "<h1>Edit and submit again</h1>" in page
    assert page.index(f"<code>{first['rule']}</code>") < page.index('name="payload.code"')
    assert answer.headers["location"] == "/attempts/01B"
    [(_, sent)] = told.sent
    assert sent == submitted | {
        "kind": "code",
        "payload": {"code": "import json\n", "inputs": {"a": 1}},
        "parent_id": "01A",
    }


async def test_validated_attempt_shows_its_batch_by_name_and_no_cause() -> None:
    attempt = json.loads((GOLDEN / "validated.json").read_text()) | {"id": "01A", "batch_id": "01N"}
    answers = {"/v1/attempts/01A": attempt, "/v1/attempts/01A/repairs": {"repairs": []}}
    async with logged_in(answers) as (client, told):
        removed = (await client.get("/attempts/01A")).text
        told.know("/v1/batches/01N", {"name": "nightly"})
        page = (await client.get("/attempts/01A")).text

    assert '<a href="/batches/01N">01N</a>' in removed
    assert '<a href="/batches/01N">nightly</a>' in page
    assert "<span>cause" not in page


async def test_attempt_says_at_the_top_what_went_wrong_and_where() -> None:
    attempt = json.loads((GOLDEN / "refused.json").read_text()) | {"id": "01A", "labels": {"file": "b.py"}}
    attempt["artifacts"] = [{"name": "submission_1.json", "bytes": 100, "sha256": "0" * 64}]
    found = {**attempt["report"]["findings"][0], "snippet": None, "line": 2, "file": "b.py"}
    attempt["report"]["findings"] = [
        {**found, "severity": "warning", "line": 1},
        {**found, "rule": "first.rule"},
        found,
    ]
    answers = {
        "/v1/attempts/01A": attempt,
        "/v1/attempts/01A/repairs": {"repairs": []},
        "/v1/attempts/01A/artifacts/submission_1.json": {"payload": {"files": {"a.py": "1", "b.py": "1\n2"}}},
    }
    async with logged_in(answers) as (client, _):
        page = (await client.get("/attempts/01A")).text

    top = page[page.index('class="summary"') : page.index('class="facts"')]
    assert all(part in top for part in ("first.rule", ">b.py:2<", "and 1 more error<"))
    assert '<span class="dim">b.py</span></h1>' in page
    assert page.index('id="first"') < page.index("Source a.py")
    assert page.count("<details open><summary><h2>Source") == 1
    assert page.count("<details><summary><h2>Source") == 1


def test_form_becomes_the_submission_that_its_schema_means() -> None:
    typed = {
        "payload.code": "x = 1\n",
        "payload.inputs": '{"a": 1}',
        "payload.paths": "/a\n\n/b\n",
        "payload.strict": "false",
        "labels": "category=weather",
        "overrides": "resources.timeout_s=5",
        "policy": "code",
    }
    assert read_submission(KIND, typed) == {
        "kind": "code",
        "payload": {"code": "x = 1\n", "inputs": {"a": 1}, "paths": ["/a", "/b"], "strict": False},
        "labels": {"category": "weather"},
        "overrides": {"resources": {"timeout_s": 5}},
        "policy": "code",
    }


async def test_generation_shows_its_validated_code_first_and_failures_at_their_answers() -> None:
    attempt = json.loads((GOLDEN / "validated.json").read_text()) | {"id": "012"}
    attempt["artifacts"] = [{"name": "submission_1.json", "bytes": 100, "sha256": "0" * 64}]
    answers = [
        fix(1, "a", original_error=None),
        fix(
            2,
            "b",
            verdict="validated",
            original_error="Wrong:\n\n1. line 3: no key 'total' [x.y]\n\nKeep in mind:",
        ),
    ]
    known = {
        "/v1/generations/01R": chain(outcome="validated", intent="Sum the orders", attempts=answers),
        "/v1/attempts/012": attempt,
        "/v1/attempts/012/artifacts/submission_1.json": {"payload": {"code": "total = 1\n"}},
    }
    async with logged_in(known) as (client, _):
        page = (await client.get("/generations/01R")).text
        kept = await client.get("/attempts/012/sources/code")
        missing = await client.get("/attempts/012/sources/other")

    assert "<h1>Sum the orders</h1>" in page
    assert page.index("Validated code") < page.index("total = <") < page.index("Answer 1")
    assert page.index("Answer 1") < page.index("no key &#39;total&#39;") < page.index("Answer 2")
    assert 'data-copy="/attempts/012/sources/code"' in page
    assert (kept.text, kept.headers["content-type"]) == ("total = 1\n", "application/octet-stream")
    assert missing.status_code == 404


async def test_generation_is_started_from_a_form() -> None:
    async with logged_in({"/v1/generations": {"id": "01G"}}) as (client, told):
        page = (await client.get("/generate?kind=code")).text
        answer = await client.post(
            "/generate",
            data={"kind": "code", "intent": "Sum it", "provider": "claude", "context.cases.0.name": "one"},
        )

    assert 'name="context.cases.0.name"' in page
    assert "<option>claude</option>" in page
    assert answer.headers["location"] == "/generations/01G"
    wanted = {
        "kind": "code",
        "intent": "Sum it",
        "provider": "claude",
        "context": {"cases": [{"name": "one"}]},
    }
    assert told.sent == [("/v1/generations", wanted)]


def test_answers_without_a_diff_are_compared_with_the_one_before() -> None:
    first, second = iter_steps({"attempts": [fix(1, "a\nb"), fix(2, "a\nc")]})

    assert not first["diff"]
    assert [(line.sign, line.text) for line in second["diff"]][1:] == [
        ("", " a"),
        ("removed", "-b"),
        ("added", "+c"),
    ]


def test_answers_that_have_nothing_in_common_are_compared_in_linear_time() -> None:
    first, other = ("\n".join(str(n * step % 101) for n in range(5000)) for step in (1, 37))
    before = time.process_time()

    _, second = iter_steps({"attempts": [fix(1, first), fix(2, other)]})

    assert second["diff"][-1].text.endswith("more lines")
    assert time.process_time() - before < 1


def test_cell_of_a_spreadsheet_holds_what_would_begin_another() -> None:
    file = io.StringIO()
    item = dict.fromkeys(("attempt_id", "verdict", "cause", "attempt"))
    with CsvWriter(file) as writer:
        writer.add({**item, "line": 1, "rules": [], "error": {"message": "no;=1+1"}})

    assert file.getvalue().splitlines()[1] == '"1","","","","","","","no;=1+1"'


@pytest.mark.parametrize(
    "begin", ["=", "+", "-", "@", "\t", "\r", "\n=", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
)
def test_cell_that_a_spreadsheet_would_compute_is_text(begin: str) -> None:
    file = io.StringIO(newline="")
    item = dict.fromkeys(("attempt_id", "verdict", "cause", "attempt"))
    with CsvWriter(file) as writer:
        writer.add({**item, "line": 1, "rules": [], "error": {"message": f"{begin}HYPERLINK(1)"}})

    file.seek(0)
    assert list(csv.reader(file))[1][-1] == f"'{begin}HYPERLINK(1)"


def test_long_diff_is_cut_and_counted() -> None:
    lines = parse_diff("\n".join(["+x"] * (MAX_DIFF_LINES + 7)))

    assert (len(lines), lines[-1].text) == (MAX_DIFF_LINES + 1, "… 7 more lines")


@pytest.mark.parametrize(
    ("module", "allowed", "said"),
    [("json.decoder", True, "allows"), ("os", False, "imports.denied"), ("numpy", False, "imports.allowed")],
)
def test_import_is_explained(module: str, allowed: bool, said: str) -> None:
    imports = {"allowed": ["json", "os"], "denied": ["os"], "names": {}, "mode": "enforce"}
    policy = {"name": "p", "imports": {**imports, "submodules": "inherit", "enforce_forbidden": True}}

    answer = explain_import(policy, module)

    assert answer[0] is allowed
    assert said in answer[1]


async def test_long_retry_context_is_cut_on_the_page_and_whole_as_a_file() -> None:
    attempt = json.loads((GOLDEN / "refused.json").read_text()) | {"id": "01A", "artifacts": []}
    attempt["report"]["retry_context"] = "x" * 1000 + "\n" + "y\n" * 4000
    answers = {"/v1/attempts/01A": attempt, "/v1/attempts/01A/repairs": {"repairs": []}}
    async with logged_in(answers) as (client, _):
        page = (await client.get("/attempts/01A")).text
        whole = await client.get("/attempts/01A/retry-context")

    assert "1,001 more characters" in page
    assert whole.text == attempt["report"]["retry_context"]


async def test_submission_of_many_texts_shows_those_with_findings_and_leads_to_all() -> None:
    attempt = json.loads((GOLDEN / "refused.json").read_text()) | {"id": "01A"}
    files = {f"{number}.py": f"x = {number}\n" for number in range(MAX_TEXTS + 5)}
    late = f"{MAX_TEXTS + 4}.py"
    attempt["artifacts"] = [{"name": "submission_1.json", "bytes": 100, "sha256": "0" * 64}]
    attempt["report"]["findings"] = [
        {**attempt["report"]["findings"][0], "message": f"{late}: wrong", "line": 1, "file": late}
    ]
    answers = {
        "/v1/attempts/01A": attempt,
        "/v1/attempts/01A/repairs": {"repairs": []},
        "/v1/attempts/01A/artifacts/submission_1.json": {"payload": {"files": files}},
    }
    async with logged_in(answers) as (client, _):
        page = (await client.get("/attempts/01A")).text

    assert page.count('aria-label="Source ') == MAX_TEXTS
    assert page.index(f"Source {late}") < page.index("Source 0.py")
    assert "5 more files" in page
    assert 'href="/attempts/01A/files/submission_1.json"' in page


def workflow_node(name: str, *needs: str, **changes: object) -> dict[str, object]:
    return {
        "id": name,
        "line": 1,
        "library": None,
        "needs": list(needs),
        "state": "validated",
        "attempt_id": f"01{name.upper()}",
        "reused": False,
        "repair_id": None,
        "input_digest": None,
        "detail": None,
        "finished_at": None,
        **changes,
    }


def workflow(*nodes: dict[str, object], **changes: object) -> dict[str, object]:
    return {
        "id": "01W",
        "name": HOSTILE,
        "uid": 1000,
        "state": "finished",
        "verdict": "failed",
        "detail": HOSTILE,
        "created_at": "2026-05-04T10:20:30.000000Z",
        "finished_at": "2026-05-04T10:20:31.000000Z",
        "resumes": None,
        "findings": [],
        "nodes": list(nodes),
        "outputs": {},
        **changes,
    }


async def test_graph_of_a_workflow_has_a_column_per_step_and_links_nodes_to_attempts() -> None:
    nodes = [workflow_node("a"), workflow_node("b", "a"), workflow_node("c", "a", "b")]
    nodes.append(workflow_node("d", "c", state="skipped", attempt_id=None, detail=HOSTILE))
    async with logged_in({"/v1/workflows/01W": workflow(*nodes)}) as (client, _):
        page = (await client.get("/workflows/01W")).text

    [picture] = re.findall(r"<svg.*</svg>", page, re.DOTALL)
    assert [float(left) for left in re.findall(r'<rect class="axis"[^>]* x="(\d+)"', picture)] == [
        4,
        194,
        384,
        574,
    ]
    assert re.findall(r'<a href="(/attempts/01[A-Z])"', picture) == [f"/attempts/01{name}" for name in "ABC"]
    assert picture.count("<path") == 4
    assert "<script>alert" not in page
    assert not set(page) & set("\u202e\x1b")


async def test_outputs_of_a_workflow_are_shown_and_its_list_links_to_it() -> None:
    found = workflow(workflow_node("a"), verdict="validated", detail=None)
    answers = {
        "/v1/workflows/01W": found,
        "/v1/workflows/01W/outputs": {"outputs": {"x": HOSTILE}},
        "/v1/workflows": {"workflows": [found], "next_cursor": None},
    }
    async with logged_in(answers) as (client, _):
        page, listed = (await client.get("/workflows/01W")).text, (await client.get("/workflows")).text

    assert "&lt;script&gt;alert(1)" in page
    assert 'href="/workflows/01W"' in listed
    assert "<script>alert" not in page + listed


async def test_entry_of_a_pipeline_shows_its_runs_and_their_rows() -> None:
    entry = {
        "name": "daily",
        "version": 2,
        "kind": "pipeline",
        "attempt_id": "01A",
        "digest": "d" * 64,
        "intent": None,
        "approved_by": 1000,
        "approved_at": "2026-05-04T10:20:30.000000Z",
        "submission": {"payload": {"steps": []}},
    }
    run = {"version": 2, "created_at": "2026-05-05T10:20:30.000000Z", "outputs": {}, "findings": []}
    good = {**run, "attempt_id": "01G", "verdict": "validated", "inputs": {}, "tables": {HOSTILE: 700}}
    refused = {"rule": "data.columns", "severity": "error", "message": f"{HOSTILE}: columns missing: a."}
    bad = {**run, "attempt_id": "01B", "verdict": "failed", "inputs": {}, "tables": {}, "findings": [refused]}
    answers = {
        "/v1/library/daily": {"entries": [entry]},
        "/v1/library/daily/2": entry,
        "/v1/attempts": {"attempts": [], "next_cursor": None},
        "/v1/pipelines/runs": {"runs": [bad, good], "next_cursor": None},
    }
    async with logged_in(answers) as (client, _):
        shown = (await client.get("/library/daily")).text

    assert "Runs on new data" in shown
    assert "700 rows, validated" in shown
    assert shown.count('class="failed"') == 1
    assert "columns missing: a." in shown
    assert "<script>alert" not in shown
