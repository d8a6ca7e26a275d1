"""The screens of `assay generate` with a scripted session."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event

from textual.pilot import Pilot

from assayd_client import Document, Refused, StreamEvent
from assayd_client.cli.generate import GenerateOptions
from assayd_screens.session import (
    Chain,
    ChainOutcome,
    GenerationInput,
    GenerationOptions,
    WizardSession,
)
from assayd_screens.wizard import Wizard, WizardResult
from support.daemons.fake_service import GOLDEN as ATTEMPTS

CONTEXTS = {
    "extractor": frozenset({"sample_paths", "cases"}),
    "pipeline": frozenset({"files", "database"}),
    "fifth": frozenset({"libraries", "task_type", "files", "execute"}),
}
PICTURES = Path(__file__).parents[2] / "unit/screens/golden"
WORDS = "quarter folder should compute start and end month"
CODE = 'from pathlib import Path\n\n\ndef extract(path: str) -> dict:\n    return {"year": 2024}\n'


def outcome(name: str, **more: object) -> ChainOutcome:
    attempt: Document = json.loads((ATTEMPTS / f"{name}.json").read_text())
    attempt["bundle"] = None  # its place depends on the machine
    submission = {"kind": "extractor", "policy": "extractor", "payload": {"code": CODE}}
    values: dict[str, object] = {"attempt": attempt, "submission": submission} | more
    return ChainOutcome(**values)  # type: ignore[arg-type]


PASSED = outcome("validated", told="Ended: validated", generation_id="01G")
FAILED = outcome("failed_at_run", told="No answer passed (3 of 3 used)", generation_id="01G")


class Played(WizardSession):
    """A session with scripted outcomes; it records what it was asked."""

    def __init__(self, *outcomes: ChainOutcome | Refused) -> None:
        super().__init__(None)
        self.outcomes = list(outcomes)
        self.done: list[tuple[object, ...]] = []
        self.told: list[StreamEvent] = []
        self.provider: str | None = None
        self.generation_id: str | None = None
        self.webhook: str | None = None
        self.before = 0
        self.may_end = Event()
        self.may_end.set()
        self.may_offer = Event()
        self.may_offer.set()
        self.writers: tuple[str, ...] = ("writer",)

    def get_generation_options(self, kind: str) -> GenerationOptions:
        self.may_offer.wait(timeout=60)
        if kind == "gone":
            raise Refused("kind.unknown", "unknown kind 'gone'", status=404)
        case = {"name": "string", "path": "string", "expected": "object"} if kind == "extractor" else {}
        return GenerationOptions(context=CONTEXTS[kind], case_fields=case, writers=self.writers)

    def known(self, attempt_id: str) -> Chain:
        return Chain(id=attempt_id, form="attempt", generation_id=self.generation_id)

    def again(self, generation_id: str) -> Chain:
        self.done.append(("again", generation_id))
        return Chain(id="01G", form="generation", most=3)

    def begin(self, asked: GenerationInput) -> Chain:
        self.done.append(("begin", asked.intent, dict(asked.context)))
        self.provider, self.webhook = asked.provider, asked.webhook
        if isinstance(self.outcomes[0], Refused):
            raise self.outcomes.pop(0)
        return Chain(id="01G", form="generation", most=3)

    def follow(self, chain: Chain) -> Iterator[StreamEvent]:
        if chain.form == "generation":
            yield from self.told
            self.may_end.wait(timeout=60)

    def events(self, attempt_id: str) -> Iterator[StreamEvent]:
        yield event("stage", {"name": "syntax", "status": "passed", "duration_ms": 1.0, "findings": 0})
        yield event("state", {"state": "running"})
        yield event("unit", {"status": "started", "index": 3, "total": 5})

    def get_failure(self, attempt_id: str) -> str:
        return f"line 3: what is wrong in {attempt_id}"

    def outcome(self, chain: Chain) -> ChainOutcome:
        found = self.outcomes.pop(0)
        assert isinstance(found, ChainOutcome)
        return found

    def cancel(self, chain: Chain) -> None:
        self.done.append(("cancel", chain.id))
        self.may_end.set()

    def hint(self, outcome: ChainOutcome, hint: str) -> Chain:
        self.done.append(("hint", hint))
        return Chain(id="01G", form="generation", most=3, before=self.before, hint=hint)

    def submit(self, outcome: ChainOutcome, texts: Mapping[str, str]) -> Chain:
        self.done.append(("submit", dict(texts)))
        return Chain(id="01A", form="attempt")

    def approve(self, outcome: ChainOutcome, name: str) -> str:
        self.done.append(("approve", name))
        if name == "taken":
            raise Refused("library.name", "another name, please [@click=app.exit]now[/]", status=422)
        return f"{name}@1"

    def accept(self, repair_id: str) -> str:
        self.done.append(("accept", repair_id))
        return "rules"


def event(kind: str, body: Document) -> StreamEvent:
    return StreamEvent(id="1", kind=kind, at="", body=body)


def wizard(session: WizardSession, **more: object) -> Wizard:
    asked = GenerationInput(kind="extractor", intent=WORDS)
    given = GenerateOptions(
        sample_paths=["/data/Q1/report.csv"], files=(), database=None, examples=(), inputs=None, options=()
    )
    values: dict[str, object] = {"asked": asked, "given": given, "name": "months"} | more
    return Wizard(session, **values)  # type: ignore[arg-type]


async def until(pilot: Pilot[WizardResult], reached: Callable[[], bool]) -> None:
    """Run the application until a condition holds."""
    async with asyncio.timeout(20):
        while not reached():
            await pilot.pause(0.01)


async def shown(pilot: Pilot[WizardResult], screen: str) -> None:
    await until(pilot, lambda: type(pilot.app.screen).__name__ == screen)
    await pilot.pause()


def picture(pilot: Pilot[WizardResult]) -> str:
    rows = pilot.app.screen._compositor.render_strips()
    return "".join("".join(part.text for part in row).rstrip() + "\n" for row in rows)


def like_the_golden_one(pilot: Pilot[WizardResult], name: str) -> None:
    path = PICTURES / f"{name}.txt"
    if os.environ.get("ASSAY_GOLDEN") == "write":
        path.write_text(picture(pilot))
    assert picture(pilot) == path.read_text()
