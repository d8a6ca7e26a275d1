"""Implements the requests that the screens send to the daemon's public API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from assayd.errors import RequestError
from assayd_client import Conflict, Document, NotFound, PlainClient, StreamEvent, Target
from assayd_client.cli.texts import fetch_stored_submission, get_submission_texts

WAIT_S = 60.0
MAX_SEARCHED = 100
"""Maximum number of generations to search for an attempt's generation."""
MAX_EDITS = 20
"""Maximum number of edited attempts to follow back to a generation."""
PASSED_ON_FIELDS = ("kind", "policy", "overrides", "labels", "intent")
"""Fields that an edited submission keeps in addition to the payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationInput:
    """A natural-language request in the form that `POST /v1/generations` accepts."""

    kind: str
    intent: str
    context: Mapping[str, object] = field(default_factory=dict)
    policy: str | None = None
    provider: str | None = None
    max_attempts: int | None = None
    labels: Mapping[str, str] | None = None
    webhook: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions:
    """The parts of the context that a kind accepts, and the providers that can generate the kind.

    `case_fields` contains the required fields of an example with their JSON types.
    """

    context: frozenset[str] = frozenset()
    case_fields: Mapping[str, str] = field(default_factory=dict)
    writers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The origin of an attempt, which is a generation, a repair, or an edited submission.

    `generation_id` is the generation from which a repair or an edited submission originates. `before` is
    the number of answers before `hint`, which begins a new round of at most `most` answers.
    """

    id: str
    form: str
    most: int = 1
    generation_id: str | None = None
    before: int = 0
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOutcome:
    """The result of a chain, with the actions that are possible.

    Attributes:
        attempt: the last attempt that was run; None if no answer could be submitted.
        submission: the submission of that attempt.
        told: one sentence that describes the chain's end; empty for a single attempt.
        diff: the changes of the last answer.
        generation_id: the id of the generation to which the outcome belongs.
        offer: the offer of rules instead of code, with the id of the repair that makes the offer.
    """

    attempt: Document | None = None
    submission: Document | None = None
    told: str = ""
    diff: str | None = None
    generation_id: str | None = None
    offer: tuple[str, Document] | None = None

    @property
    def intent(self) -> str:
        """Return the text of the request, or an empty string without a request."""
        return str((self.submission or {}).get("intent") or "")

    def following(self, before: ChainOutcome | None) -> ChainOutcome:
        """Return the outcome, with a note in `told` if its texts are the same as those of `before`."""
        is_same = (
            before is not None
            and list_submitted_texts(self)
            and list_submitted_texts(self) == list_submitted_texts(before)
        )
        return (
            replace(self, told=f"{self.told}\nThe code is the same as before.".strip()) if is_same else self
        )

    @property
    def validated(self) -> bool:
        """Return whether the outcome can be approved."""
        return self.attempt is not None and self.attempt["verdict"] == "validated"


class WizardSession:
    """A user's session, which leads from a request or an attempt to an approved entry.

    Args:
        daemon: the daemon's address; None for the default address.
        provider: the provider of a repair that a hint starts.
    """

    def __init__(self, daemon: Target, *, provider: str | None = None) -> None:
        self._daemon = daemon
        self._provider = provider

    def get_generation_options(self, kind: str) -> GenerationOptions:
        """Return the context that a kind accepts, and the kind's providers. Raises: ClientError."""
        with PlainClient(self._daemon) as client:
            found = client.kind(kind)
        schema = found["context_schema"] or {}
        return GenerationOptions(
            context=frozenset(schema.get("properties", {})),
            case_fields=_list_case_fields(schema),
            writers=tuple(found["writers"]),
        )

    def known(self, attempt_id: str) -> Chain:
        """Return an attempt as a chain.

        The chain contains the recent generation, if any, that contains or precedes the attempt.
        """
        with PlainClient(self._daemon) as client:
            made = client.generations(limit=MAX_SEARCHED)["generations"]
            owners = {each["attempt_id"]: one["id"] for one in made for each in one["attempts"]}
            follows: str | None = attempt_id
            for _ in range(MAX_EDITS):
                if follows is None or follows in owners:
                    break
                follows = _get_parent(client, follows)
        return Chain(id=attempt_id, form="attempt", generation_id=owners.get(follows))

    def again(self, generation_id: str) -> Chain:
        """Start a generation with the request of an earlier generation. Raises: ClientError."""
        with PlainClient(self._daemon) as client:
            made = client.generation(generation_id)
        kept = {each.name: made[each.name] for each in fields(GenerationInput)}
        return self.begin(GenerationInput(**kept))

    def begin(self, asked: GenerationInput) -> Chain:
        """Start a generation from a natural-language request. Raises: ClientError."""
        self._provider = asked.provider
        with PlainClient(self._daemon) as client:
            made = client.generate(**{each.name: getattr(asked, each.name) for each in fields(asked)})
        return Chain(id=made["id"], form="generation", most=made["max_attempts"])

    def follow(self, chain: Chain) -> Iterator[StreamEvent]:
        """Yield the events of a generation, repair or attempt until the chain ends."""
        with PlainClient(self._daemon) as client:
            if chain.form == "generation":
                yield from client.generation_events(chain.id)
            elif chain.form == "repair":
                yield from client.repair_events(chain.id)
            else:
                yield from client.events(chain.id)

    def events(self, attempt_id: str) -> Iterator[StreamEvent]:
        """Yield the events of one attempt in a chain until the attempt ends."""
        return self.follow(Chain(id=attempt_id, form="attempt"))

    def get_failure(self, attempt_id: str) -> str:
        """Return the first error of a finished attempt as one line, or an empty string.

        Raises: ClientError.
        """
        with PlainClient(self._daemon) as client:
            report = client.attempt(attempt_id)["report"] or {}
        errors = (one for one in report.get("findings", ()) if one["severity"] == "error")
        first = next(errors, None)
        if first is None:
            return ""
        line = f"line {first['line']}: " if first["line"] else ""
        return f"{line}{first['message']}"

    def cancel(self, chain: Chain) -> None:
        """Cancel a chain, unless it has already ended."""
        with PlainClient(self._daemon) as client:
            verbs = {"generation": client.cancel_generation, "repair": client.cancel_repair}
            try:
                verbs.get(chain.form, client.cancel)(chain.id)
            except Conflict:
                return

    def outcome(self, chain: Chain) -> ChainOutcome:
        """Return the outcome of a chain. Raises: ClientError."""
        with PlainClient(self._daemon) as client:
            if chain.form == "attempt":
                return build_attempt_outcome(client, chain.id, generation_id=chain.generation_id)
            ended = _fetch_state(client, chain)
            ran = [one for one in ended["attempts"] if one["attempt_id"]]
            last = ran[-1]["attempt_id"] if ran else ended["attempt_id"]
            return build_attempt_outcome(
                client,
                last,
                told=describe_chain_end(ended, chain.hint),
                diff=ended["attempts"][-1]["diff"] if len(ended["attempts"]) > 1 else None,
                generation_id=chain.id if chain.form == "generation" else chain.generation_id,
            )

    def hint(self, outcome: ChainOutcome, hint: str) -> Chain:
        """Continue a generation with a hint, or repair a failed attempt with the hint.

        Raises: RequestError ``hint.validated``, for a validated attempt that doesn't belong to a
            generation; ClientError.
        """
        with PlainClient(self._daemon) as client:
            if outcome.generation_id is not None:
                last = outcome.attempt["id"] if outcome.attempt is not None else None
                made = client.hint_generation(outcome.generation_id, hint, attempt_id=last)
                return Chain(
                    id=made["id"],
                    form="generation",
                    most=made["max_attempts"],
                    before=len(made["attempts"]),
                    hint=hint,
                )
            if outcome.attempt is None or outcome.validated:
                message = "a hint requires a generation or a failed attempt; edit this attempt instead"
                raise RequestError("hint.validated", message)
            made = client.repair(outcome.attempt["id"], hint=hint, provider=self._provider)
            return Chain(id=made["id"], form="repair", most=made["max_attempts"], hint=hint)

    def submit(self, outcome: ChainOutcome, texts: Mapping[str, str]) -> Chain:
        """Submit an edited submission for validation.

        Raises: RequestError ``edit.unreadable``, if the texts can't be parsed; ClientError.
        """
        before = outcome.submission or {}
        kept = {name: before[name] for name in PASSED_ON_FIELDS if before.get(name)}
        parent = {"parent_id": outcome.attempt["id"]} if outcome.attempt is not None else {}
        with PlainClient(self._daemon) as client:
            made = client.submit({**kept, **parent, "payload": replace_texts(before["payload"], texts)})
        return Chain(id=made["id"], form="attempt", generation_id=outcome.generation_id)

    def approve(self, outcome: ChainOutcome, name: str) -> str:
        """Approve a validated attempt and return the entry's name and version. Raises: ClientError."""
        with PlainClient(self._daemon) as client:
            entry = client.approve(outcome.attempt["id"] if outcome.attempt is not None else "", name)
        return f"{entry['name']}@{entry['version']}"

    def accept(self, repair_id: str) -> str:
        """Accept and return the rules that a repair offers. Raises: ClientError."""
        with PlainClient(self._daemon) as client:
            return str(client.accept_fallback(repair_id)["fallback"]["rules"])


def _list_case_fields(schema: Document) -> dict[str, str]:
    """Return the required fields of a case with their JSON types.

    The result is empty if the kind accepts no cases.
    """
    items = schema.get("properties", {}).get("cases", {}).get("items", {})
    case = schema.get("$defs", {}).get(items.get("$ref", "").rpartition("/")[2], items)
    return {name: case["properties"][name].get("type", "") for name in case.get("required", ())}


def describe_chain_end(ended: Document, hint: str = "") -> str:
    """Return a description of the chain's outcome, with the hint of the last round."""
    outcome, most = ended["outcome"] or ended["state"], ended["max_attempts"]
    told = f"No answer passed ({most} of {most} used)" if outcome == "exhausted" else f"Ended: {outcome}"
    detail = f": {ended['detail']}" if ended.get("detail") else ""
    return f"{told}{detail}" + (f". Hint: {hint}" if hint else "")


def _get_parent(client: PlainClient, attempt_id: str) -> str | None:
    """Return the parent of an attempt, or None if the attempt has no parent or was deleted."""
    try:
        parent: str | None = client.attempt(attempt_id)["parent_id"]
    except NotFound:
        return None
    return parent


def replace_texts(payload: Document, texts: Mapping[str, str]) -> Document:
    """Return a payload in which edited texts from `list_editable_texts` replace the original texts.

    Raises: RequestError ``edit.unreadable``, if the manifest isn't JSON or a step has no head.
    """
    if STEPS_FILE in texts:
        return {**payload, "steps": read_steps(texts[STEPS_FILE])}
    if "" in texts:
        return {**payload, ("code" if "code" in payload else "text"): texts[""]}
    changed = {**payload, "files": {**payload.get("files", {}), **texts}}
    manifest = changed["files"].pop("manifest.json", None)
    if manifest is not None and payload.get("manifest"):
        try:
            changed["manifest"] = json.loads(manifest)
        except ValueError as problem:
            raise RequestError("edit.unreadable", f"manifest.json isn't valid JSON: {problem}") from problem
    return changed


def _fetch_state(client: PlainClient, chain: Chain) -> Document:
    found: Document = (
        client.generation(chain.id) if chain.form == "generation" else client.repair_state(chain.id)
    )
    return found


def build_attempt_outcome(
    client: PlainClient,
    attempt_id: str | None,
    *,
    told: str = "",
    diff: str | None = None,
    generation_id: str | None = None,
) -> ChainOutcome:
    """Return the outcome of an attempt, after waiting for its end; without an attempt, only the given facts.

    Raises: ClientError, if a request fails.
    """
    if attempt_id is None:
        return ChainOutcome(told=told, generation_id=generation_id)
    attempt = client.attempt(attempt_id)
    while attempt["state"] != "finished":  # a generation ends before its cancelled attempt does
        attempt = client.attempt(attempt_id, wait_s=WAIT_S)
    offer = None
    if attempt["verdict"] == "failed":
        for repair in client.repairs_of(attempt_id)["repairs"]:
            state = client.repair_state(repair["id"])
            offer = (state["id"], state["fallback"]) if state["fallback"] else offer
    return ChainOutcome(
        attempt=attempt,
        submission=fetch_stored_submission(client, attempt),
        told=told,
        diff=diff,
        generation_id=generation_id,
        offer=offer,
    )


STEPS_FILE = "steps.txt"
STEPS_HELP = "# Edit, add, remove or move steps. Each begins with a line: === NAME (bash or sql) ===\n"
_STEP_HEAD_PATTERN = re.compile(r"^=== (.+) \((bash|sql)\) ===[ \t]*$", re.MULTILINE)


def list_editable_texts(outcome: ChainOutcome) -> dict[str, str]:
    """Return the texts that a user can edit, by name.

    These are the texts of `list_submitted_texts`, except that the steps of a pipeline are one text.
    """
    steps = (outcome.submission or {}).get("payload", {}).get("steps")
    if not steps:
        return list_submitted_texts(outcome)
    parts = (f"=== {step['name']} ({step['type']}) ===\n{step['content'].rstrip()}\n" for step in steps)
    return {STEPS_FILE: "\n".join((STEPS_HELP, *parts))}


def read_steps(text: str) -> list[Document]:
    """Parse steps in the format of `list_editable_texts`.

    Raises: RequestError ``edit.unreadable``, if the text doesn't begin with a step.
    """
    before, *parts = _STEP_HEAD_PATTERN.split(text)
    stray = next((line for line in before.splitlines() if line.strip() and not line.startswith("#")), None)
    if stray is not None or not parts:
        message = f"{STEPS_FILE} must begin with a line: === NAME (bash or sql) ==="
        raise RequestError("edit.unreadable", message)
    steps = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return [{"name": name, "type": kind, "content": body.strip("\n") + "\n"} for name, kind, body in steps]


def list_submitted_texts(outcome: ChainOutcome) -> dict[str, str]:
    """Return the submitted texts by name. A single text has no name."""
    return get_submission_texts(outcome.submission) if outcome.submission is not None else {}
