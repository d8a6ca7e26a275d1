"""Implements the actions of the tools, each of which sends requests to the daemon and builds an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from assayd.documents.chains import GenerationBody, RepairBody
from assayd.documents.submission import SubmissionBody, Ulid
from assayd.errors import RequestError
from assayd.model.text_limits import MAX_WAIT_S
from assayd_client import Document, requests
from assayd_mcp.answers import (
    AttemptAnswer,
    ChainAnswer,
    KindRow,
    KindsAnswer,
    PageAnswer,
    PolicyAnswer,
    PolicyRow,
    RuleRow,
    build_attempt_answer,
    build_chain_answer,
    escape_and_truncate,
)
from assayd_mcp.daemon import DaemonConnection, LongOperation, Tell

WAIT_S = 120.0
CHAIN_WAIT_S = 300.0

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Part = Literal["summary", "findings", "cases", "code", "retry_context"]


class Arguments(BaseModel):
    """The arguments of a tool. Unknown arguments are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ValidateArguments(SubmissionBody):
    """A submission, with the maximum time to wait for its verdict."""

    wait_s: float = Field(
        WAIT_S,
        gt=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the verdict; if it takes longer, use `show`.",
    )


class ShowArguments(Arguments):
    """An attempt, with the part of the attempt to show."""

    attempt_id: Ulid = Field(description="The attempt.")
    part: Part = Field("summary", description="`summary`, or one complete list or text, page by page.")
    first: int = Field(
        1, ge=1, le=1_000_000, description="First entry or character of the page, starting at 1."
    )


class LogsArguments(Arguments):
    """An attempt, with the output stream to return."""

    attempt_id: Ulid = Field(description="The finished attempt.")
    stream: Literal["stdout", "stderr"] = Field("stdout", description="Output stream.")
    first: int = Field(1, ge=1, le=100_000_000, description="First character of the page, starting at 1.")


class RepairArguments(RepairBody):
    """A failed attempt to repair, with the terms of the repair."""

    attempt_id: Ulid = Field(description="The failed attempt.")
    wait_s: float = Field(CHAIN_WAIT_S, gt=0, le=MAX_WAIT_S, description="Seconds to wait for the outcome.")


class GenerateArguments(GenerationBody):
    """A natural-language request, with the maximum time to wait."""

    wait_s: float = Field(CHAIN_WAIT_S, gt=0, le=MAX_WAIT_S, description="Seconds to wait for the outcome.")


class PolicyArguments(Arguments):
    """The name of the profile to describe."""

    name: Name | None = Field(None, description="Name of the profile. Default: list all.")
    module: str | None = Field(
        None, max_length=200, description="With `name`: list the allowed names of this module."
    )


class KindsArguments(Arguments):
    """The name of the kind or rule to describe."""

    kind: Name | None = Field(None, description="Name of the kind. Default: list all.")
    rule: str | None = Field(None, max_length=200, description="With `kind`: explain this rule.")


MAX_MCP_PAGE_CHARS = 8_000
MAX_ENTRY_CHARS = 4_000
SUBMISSION_PREFIX = "submission_"
"""The prefix of the file with the submission in a bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool, with the daemon that it uses and the receiver of progress messages."""

    daemon: DaemonConnection
    tell: Tell


async def validate(call: ToolCall, arguments: ValidateArguments) -> AttemptAnswer | ChainAnswer:
    """Submit code and wait for the verdict and, if a repair follows, for the end of the repair."""
    wanted = arguments.model_dump(mode="json", exclude={"wait_s"}, exclude_unset=True)
    attempt = await call.daemon.begin(requests.submit(wanted))
    attempt = await call.daemon.follow_operation(
        _build_attempt_operation(attempt["id"]), tell=call.tell, wait_s=arguments.wait_s
    )
    if arguments.repair is not None and attempt["verdict"] == "failed":
        begun = (await call.daemon.ask(requests.repairs_of(attempt["id"])))["repairs"]
        if begun:
            return await _wait_for_chain(call, _build_repair_operation(begun[0]["id"]), arguments.wait_s)
    return build_attempt_answer(attempt)


async def show(call: ToolCall, arguments: ShowArguments) -> AttemptAnswer | PageAnswer:
    """Show an attempt in summary, or one part of the attempt in full."""
    attempt = await call.daemon.ask(requests.attempt(arguments.attempt_id))
    report = attempt["report"] or {}
    match arguments.part:
        case "summary":
            return build_attempt_answer(attempt)
        case "findings":
            return _build_entries_page(arguments, report.get("findings") or [])
        case "cases":
            return _build_entries_page(arguments, (report.get("runtime_results") or {}).get("cases") or [])
        case "retry_context":
            return _build_text_page(
                arguments.attempt_id, arguments.part, report.get("retry_context") or "", arguments.first
            )
        case "code":
            payload = await load_payload(call.daemon, attempt)
            text = json.dumps(payload, ensure_ascii=False)
            return _build_text_page(arguments.attempt_id, arguments.part, text, arguments.first)


async def logs(call: ToolCall, arguments: LogsArguments) -> PageAnswer:
    """Show the output of the submitted code.

    Raises: RequestError ``logs.not_yet``, if the attempt hasn't finished.
    """
    attempt = await call.daemon.ask(requests.attempt(arguments.attempt_id))
    if attempt["state"] != "finished":
        raise RequestError(
            "logs.not_yet", f"{arguments.attempt_id} is {attempt['state']}; try again when it is finished"
        )
    names = [each["name"] for each in attempt["artifacts"] if each["name"].startswith(arguments.stream)]
    parts = [await call.daemon.request_bytes(requests.artifact(attempt["id"], name)) for name in names]
    text = b"".join(parts).decode("utf-8", "replace")
    return _build_text_page(arguments.attempt_id, arguments.stream, text, arguments.first)


async def repair(call: ToolCall, arguments: RepairArguments) -> ChainAnswer:
    """Start the repair of a failed attempt, and wait until the repair ends."""
    wanted = arguments.model_dump(mode="json", exclude={"wait_s", "attempt_id"}, exclude_unset=True)
    begun = await call.daemon.begin(requests.repair(arguments.attempt_id, **wanted))
    return await _wait_for_chain(call, _build_repair_operation(begun["id"]), arguments.wait_s)


async def generate(call: ToolCall, arguments: GenerateArguments) -> ChainAnswer:
    """Start a generation from a natural-language request, and wait until the generation ends."""
    wanted = arguments.model_dump(mode="json", exclude={"wait_s"}, exclude_unset=True)
    begun = await call.daemon.begin(requests.generate(**wanted))
    course = LongOperation(
        events=requests.generation_events(begun["id"]),
        state=requests.generation(begun["id"]),
        cancel=requests.cancel_generation(begun["id"]),
    )
    return await _wait_for_chain(call, course, arguments.wait_s)


async def policy(call: ToolCall, arguments: PolicyArguments) -> PolicyAnswer:
    """List all profiles in one line each, or show one profile with its effective values."""
    if arguments.name is None:
        found = (await call.daemon.ask(requests.policies()))["policies"]
        return PolicyAnswer(
            policies=[_build_policy_row(each) for each in found],
            policy=None,
            names=[],
            more=["one profile in full: policy name=NAME"],
        )
    profile = await call.daemon.ask(requests.policy(arguments.name))
    names: Mapping[str, Any] = profile["imports"].pop("names", {})
    more = []
    if names:
        profile["imports"]["modules_with_names"] = sorted(names)
        more = [f"allowed names of one module: policy name={arguments.name} module=MODULE"]
    wanted = list(names.get(arguments.module or "") or ())
    return PolicyAnswer(policies=[], policy=profile, names=wanted, more=more)


async def kinds(call: ToolCall, arguments: KindsArguments) -> KindsAnswer:
    """List all kinds in one line each, or show one kind with its contract, or one rule."""
    if arguments.kind is None:
        found = (await call.daemon.ask(requests.kinds()))["kinds"]
        return _build_kinds_answer(
            [_build_kind_row(each) for each in found], more=["the contract of one kind: kinds kind=KIND"]
        )
    kind = await call.daemon.ask(requests.kind(arguments.kind))
    if arguments.rule is not None:
        return _build_kinds_answer([_build_kind_row(kind)], help=_render_rule_help(kind, arguments.rule))
    return _build_kinds_answer(
        [_build_kind_row(kind)],
        payload_schema=kind["payload_schema"],
        example=kind["example"],
        rules=[
            RuleRow(id=each["id"], severity=each["severity"], title=each["title"]) for each in kind["rules"]
        ],
        more=[f"explanation of a rule: kinds kind={arguments.kind} rule=RULE"],
    )


async def load_payload(daemon: DaemonConnection, attempt: Document) -> object:
    """Return the submitted payload of an attempt. Raises: RequestError ``bundle.none``, without a bundle."""
    name = next(
        (each["name"] for each in attempt["artifacts"] if each["name"].startswith(SUBMISSION_PREFIX)), None
    )
    if name is None:
        message = f"{attempt['id']} is {attempt['state']} and has no bundle; try again when it is finished"
        raise RequestError("bundle.none", message)
    payload: object = json.loads(await daemon.request_bytes(requests.artifact(attempt["id"], name)))[
        "payload"
    ]
    return payload


def _build_attempt_operation(attempt_id: str) -> LongOperation:
    return LongOperation(
        events=requests.events(attempt_id),
        state=requests.attempt(attempt_id),
        cancel=requests.cancel(attempt_id),
    )


def _build_repair_operation(repair_id: str) -> LongOperation:
    return LongOperation(
        events=requests.repair_events(repair_id),
        state=requests.repair_state(repair_id),
        cancel=requests.cancel_repair(repair_id),
    )


async def _wait_for_chain(call: ToolCall, course: LongOperation, wait_s: float) -> ChainAnswer:
    chain = await call.daemon.follow_operation(course, tell=call.tell, wait_s=wait_s)
    ran = [step["attempt_id"] for step in chain["attempts"] if step["attempt_id"]]
    if not ran:
        return build_chain_answer(chain, None, None)
    last = await call.daemon.ask(requests.attempt(ran[-1]))
    text = None
    if last["state"] == "finished":
        text = json.dumps(await load_payload(call.daemon, last), ensure_ascii=False)
    return build_chain_answer(chain, last, text)


def _build_entries_page(arguments: ShowArguments, entries: list[Document]) -> PageAnswer:
    """Return a page of as many complete entries as fit into an answer, but at least one if any is left."""
    texts: list[str] = []
    for entry in entries[arguments.first - 1 :]:
        text = escape_and_truncate(json.dumps(entry, ensure_ascii=False), MAX_ENTRY_CHARS)
        if texts and sum(map(len, texts)) + len(text) > MAX_MCP_PAGE_CHARS:
            break
        texts.append(text)
    following = arguments.first + len(texts)
    return PageAnswer(
        attempt_id=arguments.attempt_id,
        part=arguments.part,
        entries=texts,
        first=arguments.first,
        total=len(entries),
        next_first=following if texts and following <= len(entries) else None,
    )


def _build_text_page(attempt_id: str, part: str, text: str, first: int) -> PageAnswer:
    piece = text[first - 1 : first - 1 + MAX_MCP_PAGE_CHARS]
    following = first + len(piece)
    return PageAnswer(
        attempt_id=attempt_id,
        part=part,
        entries=[escape_and_truncate(piece, MAX_MCP_PAGE_CHARS)] if piece else [],
        first=first,
        total=len(text),
        next_first=following if piece and following <= len(text) else None,
    )


def _build_policy_row(profile: Document) -> PolicyRow:
    return PolicyRow(
        name=profile["name"],
        description=profile["description"],
        network=(profile.get("network") or {}).get("mode", "blocked"),
        resources=profile["resources"],
    )


def _build_kind_row(kind: Document) -> KindRow:
    return KindRow(kind=kind["kind"], policy=kind["default_policy"], stages=kind["stages"])


def _build_kinds_answer(rows: list[KindRow], **said: Any) -> KindsAnswer:
    usual: Document = {"payload_schema": None, "example": None, "rules": [], "help": None, "more": []}
    return KindsAnswer(kinds=rows, **{**usual, **said})


def _render_rule_help(kind: Document, rule: str) -> str:
    for each in kind["rules"]:
        if each["id"] == rule:
            return str(each["help"] or each["title"])
    raise RequestError(
        "rule.unknown", f"{kind['kind']} has no rule {rule[:64]!r}; kinds kind={kind['kind']} lists them"
    )
