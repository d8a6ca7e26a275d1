"""Manages the claimed, held and lost runs of attempts across all nodes.

The runs that nodes have claimed at this gateway are cached, so that recording a verdict needs no lookup. The
cache makes no decisions: the transaction that records a verdict checks that the run still belongs to the
node.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    Connection,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    tuple_,
    union,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as insert_or

from assayd.documents import LARGE_DOCUMENT_BYTES, parse_json, serialize_compact
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import get_attempt
from assayd.store.server import Row, SingleStatementChange
from assayd.store.tables import read_attempt
from assayd_cluster.documents import HEARTBEAT_TIMEOUT_S, Claim, ClaimedRun
from assayd_cluster.gateway.claiming import LastRun, NodeEligibility, Refusal, build_first_claim, decide_claim
from assayd_cluster.gateway.notices import GatewayNotices
from assayd_cluster.gateway.outbox import compute_ticket_digest
from assayd_cluster.nodes import build_accepts_work_condition
from assayd_cluster.tables import LIVE_SINCE, NOW, dispatches, nodes, uploads

KEPT = 1024
MAX_BYTES = 16 * 2**10
"""Maximum size of a cached submission; larger ones are read from the database again."""

OVER = 0
"""The `expires_at` of a run that ended without a verdict."""
MAX_RETURNS = 10
"""Maximum number of returns of an attempt without a run; each further return counts as a lost run."""
GATEWAY_FIELDS = ("repair", "webhook", "parent_id")
"""Fields of a submission that only the gateway uses, because a node's daemon doesn't have the parent."""

_RUN = tables.runs.c
_DISPATCH = dispatches.c
_NEWEST = tables.runs.alias("newest")
_LATEST = (
    select(func.max(_NEWEST.c.run_number))
    .where(_NEWEST.c.attempt_id == _DISPATCH.attempt_id)
    .scalar_subquery()
)
_LATEST_OF_RUN = (
    select(func.max(_NEWEST.c.run_number)).where(_NEWEST.c.attempt_id == _RUN.attempt_id).scalar_subquery()
)
_OF_DISPATCH = dispatches.join(tables.attempts, tables.attempts.c.id == _DISPATCH.attempt_id).join(
    tables.submissions, tables.submissions.c.digest == tables.attempts.c.submission
)
_WITH_RUN = _OF_DISPATCH.outerjoin(
    tables.runs, and_(_RUN.attempt_id == _DISPATCH.attempt_id, _RUN.run_number == _LATEST)
)
_HAND, _UNFINISHED = tables.runs.alias("hand"), dispatches.alias("unfinished")
_LIVE_SINCE = select(LIVE_SINCE).scalar_subquery()  # read once, so that the index finds younger rows
_IDS = select(func.jsonb_array_elements_text(cast(nodes.c.runs, JSONB))).where(
    nodes.c.name == bindparam("node")
)
_HELD_BY = select(_HAND.c.attempt_id).where(_HAND.c.daemon_id == bindparam("node"), _HAND.c.expires_at > NOW)
_RECENT_RUNS = _HELD_BY.where(_HAND.c.leased_at > _LIVE_SINCE)
_LISTED_RUNS = _HELD_BY.where(_HAND.c.attempt_id.in_(_IDS))
_BEGUN_RUNS = union(_RECENT_RUNS, _LISTED_RUNS).subquery()
_UNFINISHED_OF_BEGUN = (
    select(_UNFINISHED.c.attempt_id)
    .where(_UNFINISHED.c.attempt_id == _BEGUN_RUNS.c.attempt_id)
    .scalar_subquery()
)
# Counted separately, because in a join, the server may read the whole outbox.
_COUNT_IN_HAND = select(func.count(_UNFINISHED_OF_BEGUN)).select_from(_BEGUN_RUNS).scalar_subquery()
"""The number of unfinished runs that a node holds: recently claimed runs, and all listed runs."""
_TAKES_WORK = build_accepts_work_condition()
_CLAIMED = (
    select(
        tables.attempts,
        _DISPATCH.ticket_sha256,
        _DISPATCH.cancelled_at,
        _DISPATCH.returned,
        tables.submissions.c.document,
        _RUN.run_number.label("runs"),
        _RUN.daemon_id,
        _RUN.leased_at,
        _RUN.expires_at,
        literal(None).label("verdict"),
        nodes.c.capacity,
        (nodes.c.beat_at > LIVE_SINCE).label("lives"),
        _TAKES_WORK.label("takes_work"),
        _COUNT_IN_HAND.label("in_hand"),
        NOW.label("now"),
    )
    .select_from(_WITH_RUN.outerjoin(nodes, nodes.c.name == bindparam("node")))
    .where(_DISPATCH.attempt_id == bindparam("attempt"))
    .with_for_update(of=dispatches)
)
_CLAIM_FIRST = build_first_claim(_CLAIMED)
_NODE = select(nodes.c.runs).where(nodes.c.name == bindparam("node"), nodes.c.beat_at > LIVE_SINCE)
_OTHERS = select(func.count()).where(nodes.c.name != bindparam("node"), _TAKES_WORK)
_RETURN = (
    update(dispatches)
    .where(_DISPATCH.attempt_id == bindparam("attempt"))
    .values(returned=_DISPATCH.returned + 1)
    .returning(_DISPATCH.returned)
)
_ADD = insert(tables.runs).values(
    attempt_id=bindparam("attempt"),
    run_number=bindparam("run"),
    daemon_id=bindparam("node"),
    generation="",
    container_ulid="",
    leased_at=bindparam("at"),
    expires_at=bindparam("until"),
)
_IS_THIS_RUN = and_(
    _RUN.attempt_id == bindparam("attempt"),
    _RUN.run_number == bindparam("run_number_"),
    _RUN.daemon_id == bindparam("node"),
)
_SELECT_HELD = (
    select(
        _RUN.leased_at,
        _RUN.expires_at,
        _RUN.run_number,
        _LATEST_OF_RUN.label("latest"),
        tables.submissions.c.document,
    )
    .select_from(
        tables.runs.join(tables.attempts, tables.attempts.c.id == _RUN.attempt_id).join(
            tables.submissions, tables.submissions.c.digest == tables.attempts.c.submission
        )
    )
    .where(_IS_THIS_RUN)
)
_SELECT_EXPIRY = select(_RUN.expires_at).where(_IS_THIS_RUN)
_END = update(tables.runs).where(_IS_THIS_RUN).values(expires_at=OVER)
_TAKE_BACK_ONE = _END.where(_RUN.expires_at > NOW)
_FORGET = delete(tables.runs).where(_IS_THIS_RUN)
_IS_OF_NODE = and_(_RUN.daemon_id == bindparam("node"), _RUN.generation == "")
_DISTRUST = (
    update(tables.verdicts)
    .where(
        tables.verdicts.c.distrusted_at.is_(None),
        tuple_(tables.verdicts.c.attempt_id, tables.verdicts.c.run_number).in_(
            select(_RUN.attempt_id, _RUN.run_number).where(_IS_OF_NODE, _RUN.leased_at >= bindparam("since"))
        ),
    )
    .values(distrusted_at=NOW)
)
_END_RUNS = (
    update(tables.runs)
    .where(_IS_OF_NODE, _RUN.expires_at > NOW, _RUN.attempt_id.in_(select(_DISPATCH.attempt_id)))
    .values(expires_at=OVER)
    .returning(_RUN.attempt_id)
)
_SELECT_KNOWN = select(literal(1)).where(_IS_OF_NODE).limit(1)
# A statement locks its tables before it looks at anything. So a claim that comes meanwhile sees afterwards
# that the node is drained, and the run of one that was under way is taken back. Claims pay nothing for it.
_LOCK_CLAIMS = text("LOCK TABLE runs IN EXCLUSIVE MODE")
_LOCK_DISTRUST = text("LOCK TABLE runs IN ROW EXCLUSIVE MODE")
_CANCELLED = (
    select(_DISPATCH.attempt_id)
    .join(tables.runs, _RUN.attempt_id == _DISPATCH.attempt_id)
    .where(_DISPATCH.cancelled_at.is_not(None), _RUN.daemon_id == bindparam("node"), _RUN.expires_at != OVER)
)
_UPLOAD = insert_or(uploads).on_conflict_do_nothing()
_UPLOADED_BYTES = select(func.coalesce(func.sum(func.length(uploads.c.content)), 0)).where(
    uploads.c.attempt_id == bindparam("attempt")
)
_UPLOADED = select(uploads.c.sha256, uploads.c.content).where(
    uploads.c.attempt_id == bindparam("attempt"), uploads.c.run_number == bindparam("run_number_")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """A run that a node holds, with its attempt and submission. `leased_at` is in microseconds.

    `finished` is True if the verdict of another run is recorded or another run is in progress.
    """

    number: int
    node: str
    leased_at: int
    attempt: Attempt
    document: bytes
    finished: bool = False

    @property
    def attempt_id(self) -> str:
        """Return the id of the attempt to which the run belongs."""
        return self.attempt.id


class HeldRunCache:
    """A cache of the latest claims by attempt, without the oldest entries."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, HeldRun] = OrderedDict()

    def add(self, held: HeldRun) -> None:
        """Add a run that a node has just claimed, unless its submission is larger than `MAX_BYTES`."""
        self.forget(held.attempt_id)
        if len(held.document) <= MAX_BYTES:
            self._held[held.attempt_id] = held
            if len(self._held) > KEPT:
                self._held.popitem(last=False)

    def find(self, node: str, attempt_id: str, number: int) -> HeldRun | None:
        """Return the run that a node has claimed, or None if the run isn't in the cache."""
        held = self._held.get(attempt_id)
        return held if held is not None and (held.node, held.number) == (node, number) else None

    def forget(self, attempt_id: str | None) -> None:
        """Remove the run of an attempt that has ended from the cache, or all runs if the id is None."""
        if attempt_id is None:
            self._held.clear()
        else:
            self._held.pop(attempt_id, None)


class RunHeldElsewhere(RequestError):
    """An error raised if a node gets no run now. `elsewhere` is True if another node can get the run."""

    def __init__(
        self, message: str = "another node has the run; ask again later", *, elsewhere: bool = False
    ) -> None:
        super().__init__("run.held", message, retryable=True)
        self.elsewhere = elsewhere


class NodeIdle(RequestError):
    """An error raised if the node is overloaded, or if operators or the gateway excluded it.

    `tenant` is the attempt's tenant if the node has too many runs in hand.
    """

    def __init__(self, node: str, why: str = "takes no work", *, tenant: int | None = None) -> None:
        message = f"node {node} {why}; another message has another node run it, drop this one"
        super().__init__("node.idle", message)
        self.tenant = tenant


class RunsExhausted(RequestError):
    """An error raised if both runs of an attempt are lost. The attempt's gateway must end the attempt."""

    def __init__(self) -> None:
        super().__init__("run.over", "both runs of the attempt are lost")


class RunTable:
    """The table of runs in the database, as used by this gateway."""

    def __init__(
        self, access: DatabaseAccess, notices: GatewayNotices, *, longest_run_s: float = 21_600
    ) -> None:
        self._access = access
        self._notices = notices
        self._longest_run_us = int(longest_run_s * 1_000_000)
        self._kept = HeldRunCache()

    async def claim(self, node: str, claim: Claim) -> ClaimedRun:
        """Assign a node the run to which its message refers.

        Raises: RunHeldElsewhere, if the node gets no run now; NodeIdle, if it can't accept work;
        RunsExhausted, if both runs are lost; RequestError ``run.over``, if no run is needed;
        ``ticket.wrong``.
        """

        def apply(connection: Connection) -> HeldRun:
            connection.execute(_LOCK_DISTRUST)
            row = connection.execute(_CLAIMED, {"attempt": claim.attempt, "node": node}).one_or_none()
            if row is None:
                raise _build_run_over_error(claim.attempt)
            if not hmac.compare_digest(row.ticket_sha256, compute_ticket_digest(claim.ticket)):
                raise RequestError(
                    "ticket.wrong", "the ticket doesn't belong to the attempt; drop the message"
                )
            last = _read_last_run(connection, claim.attempt, row)
            others = last is not None and row.returned < MAX_RETURNS
            others = others and connection.execute(_OTHERS, {"node": node}).scalar_one() > 0
            cancelled = row.cancelled_at is not None
            decided = decide_claim(
                node, last, cancelled=cancelled, others=others, standing=_read_eligibility(row)
            )
            if isinstance(decided, Refusal):
                raise _build_claim_refused_error(decided, node, claim.attempt)
            if last is not None and decided == last.number:
                return _build_held_run(row._mapping, node, decided, row.leased_at)
            # Twice the stated number: a killed worker leaves runs that its successor lists again.
            if row.in_hand >= 2 * (row.capacity or 1):
                raise NodeIdle(
                    node, f"has {row.in_hand} runs in hand", tenant=read_attempt(row._mapping).peer.uid
                )
            added = {"attempt": claim.attempt, "run": decided, "node": node}
            connection.execute(_ADD, {**added, "at": row.now, "until": row.now + self._longest_run_us})
            return _build_held_run(row._mapping, node, decided, row.now)

        held = await self._access.write(self._build_first_claim_statement(node, claim))
        if held is None:
            held = await self._access.write(apply, durable=False)
        self._kept.add(held)
        attempt = held.attempt
        return ClaimedRun(
            run=held.number,
            document=await _build_node_document(held.document),
            uid=attempt.peer.uid,
            kind=attempt.kind,
            policy=attempt.policy,
        )

    def _build_first_claim_statement(self, node: str, claim: Claim) -> SingleStatementChange[HeldRun | None]:
        """Return the statement that assigns the first run to a node, with the result None if undecided."""
        ticket = compute_ticket_digest(claim.ticket)
        values = {"attempt": claim.attempt, "node": node, "ticket": ticket, "lasts": self._longest_run_us}

        def read(row: Row | None) -> HeldRun | None:
            return _build_held_run(row, node, 1, row["now"]) if row is not None and row["added"] else None

        return SingleStatementChange(_CLAIM_FIRST, values, read)

    async def require_run_holder(self, node: str, attempt_id: str, number: int) -> None:
        """Check that a run belongs to a node.

        Raises: RequestError ``run.foreign``, if it doesn't; ``run.over``, if it ended without a verdict.
        """
        if self._kept.find(node, attempt_id, number) is not None:
            return
        wanted = {"attempt": attempt_id, "run_number_": number, "node": node}
        expires_at = await self._access.read(
            lambda connection: connection.execute(_SELECT_EXPIRY, wanted).scalar()
        )
        if expires_at is None:
            raise _build_foreign_run_error(node, number)
        if expires_at == OVER:
            raise _build_run_over_error(attempt_id)

    async def get_claimed_run(self, node: str, attempt_id: str, number: int) -> HeldRun:
        """Return a run from the cache or the database. Raises: the same errors as `held`."""
        kept = self._kept.find(node, attempt_id, number)
        return kept if kept is not None else await self.held(node, attempt_id, number)

    def forget(self, attempt_id: str | None) -> None:
        """Remove an attempt's run, or all runs, from the cache, because it has ended or was returned."""
        self._kept.forget(attempt_id)

    async def held(self, node: str, attempt_id: str, number: int) -> HeldRun:
        """Return a run if the node holds it or if the run has a verdict.

        Raises: RequestError ``run.foreign``, if the node doesn't hold it; ``run.over``, if it ended without a
        verdict.
        """
        wanted = {"attempt": attempt_id, "run_number_": number, "node": node}

        def fetch(connection: Connection) -> HeldRun:
            row = connection.execute(_SELECT_HELD, wanted).one_or_none()
            attempt = get_attempt(connection, attempt_id) if row is not None else None
            if row is None or attempt is None:
                raise _build_foreign_run_error(node, number)
            if row.expires_at == OVER:
                raise _build_run_over_error(attempt_id)
            return HeldRun(
                number=number,
                node=node,
                leased_at=row.leased_at,
                attempt=attempt,
                document=bytes(row.document),
                finished=attempt.state is State.FINISHED or row.latest != number,
            )

        return await self._access.read(fetch)

    async def record_lost_run(self, held: HeldRun, *, started: bool, refused: bool = False) -> bool:
        """Record that a run ended without a verdict; return whether the run is counted.

        A run that never started isn't counted, unless the attempt has had many such runs. If `refused`, the
        other gateways are notified that the node's daemon refused the submission.
        """
        refusal = {"refused_by": held.node} if refused else {}
        values = {"attempt": held.attempt_id, "run_number_": held.number, "node": held.node}

        def apply(connection: Connection) -> bool:
            spent = started or _increment_return_count(connection, held.attempt_id) > MAX_RETURNS
            connection.execute(_END if spent else _FORGET, values)
            self._notices.send_notice(connection, "again", attempt=held.attempt_id, **refusal)
            return spent

        return await self._access.write(apply)

    async def take_back_run(self, attempt_id: str, node: str, number: int) -> bool:
        """End a run that its node has held too long. Return False if the run has ended in the meantime."""
        values = {"attempt": attempt_id, "run_number_": number, "node": node}

        def apply(connection: Connection) -> bool:
            taken = connection.execute(_TAKE_BACK_ONE, values).rowcount == 1
            if taken:
                self._notices.send_notice(connection, "again", attempt=attempt_id)
            return taken

        self._kept.forget(attempt_id)
        return await self._access.write(apply)

    async def notify_run_returned(self, attempt_id: str) -> None:
        """Notify the attempt's gateway to republish the attempt, because a node has returned it."""

        def apply(connection: Connection) -> None:
            _increment_return_count(connection, attempt_id)
            self._notices.send_notice(connection, "again", attempt=attempt_id)

        await self._access.write(apply, durable=False)

    async def request_republish(self, attempt_id: str) -> None:
        """Notify the attempt's gateway to republish the attempt, because its node accepts no work."""
        await self._access.write(
            lambda connection: self._notices.send_notice(connection, "again", attempt=attempt_id),
            durable=False,
        )

    async def notify_runs_exhausted(self, attempt_id: str) -> None:
        """Notify the attempt's gateway that both runs are lost."""
        await self._access.write(
            lambda connection: self._notices.send_notice(connection, "exhausted", attempt=attempt_id),
            durable=False,
        )

    async def distrust_node(self, node: str, since: int) -> tuple[int, Sequence[str]]:
        """Mark the verdicts of a drained node as distrusted, and take back its runs.

        Only verdicts of runs that began at `since` (in microseconds) or later are marked.

        Returns:
            The number of newly marked verdicts, and the attempts that the node held.
        """

        def apply(connection: Connection) -> tuple[int, Sequence[str]]:
            connection.execute(_LOCK_CLAIMS)
            taken = list(connection.execute(_END_RUNS, {"node": node}).scalars())
            marked = connection.execute(_DISTRUST, {"node": node, "since": since}).rowcount
            for attempt_id in taken:
                self._notices.send_notice(connection, "again", attempt=attempt_id)
            return marked, taken

        return await self._access.write(apply)

    async def is_known(self, node: str) -> bool:
        """Return whether a node with this name has had a run of a recorded attempt."""
        wanted = {"node": node}
        return await self._access.read(
            lambda connection: connection.execute(_SELECT_KNOWN, wanted).scalar() is not None
        )

    async def list_cancelled(self, node: str) -> Sequence[str]:
        """Return the ids of attempts that a node holds but must end."""
        wanted = {"node": node}
        return await self._access.read(
            lambda connection: list(connection.execute(_CANCELLED, wanted).scalars())
        )

    async def store_file(self, held: HeldRun, sha256: str, content: bytes, *, most_bytes: int) -> None:
        """Store a large file until the verdict is recorded.

        Raises: RequestError ``too_large``, if the files of the attempt exceed `most_bytes`.
        """

        def apply(connection: Connection) -> None:
            there = connection.execute(_UPLOADED_BYTES, {"attempt": held.attempt_id}).scalar_one()
            if there + len(content) > most_bytes:
                raise RequestError("too_large", f"the files of a run may have {most_bytes} bytes in total")
            values = {"attempt_id": held.attempt_id, "run_number": held.number}
            connection.execute(_UPLOAD, {**values, "sha256": sha256, "content": content})

        await self._access.write(apply)

    async def get_uploaded_files(self, held: HeldRun) -> Mapping[str, bytes]:
        """Return the files that were uploaded before the verdict, keyed by SHA-256 digest."""
        wanted = {"attempt": held.attempt_id, "run_number_": held.number}
        rows = await self._access.read(lambda connection: connection.execute(_UPLOADED, wanted).all())
        return {row.sha256: bytes(row.content) for row in rows}


def _read_last_run(connection: Connection, attempt_id: str, row: Any) -> LastRun | None:
    if row.runs is None:
        return None
    over = row.expires_at <= row.now
    listed = None if over else connection.execute(_NODE, {"node": row.daemon_id}).scalar()
    fresh = row.now - row.leased_at < HEARTBEAT_TIMEOUT_S * 1_000_000
    alive = listed is not None and (fresh or attempt_id in json.loads(listed))
    return LastRun(number=row.runs, node=row.daemon_id, over=over, alive=alive)


def _build_held_run(row: Mapping[Any, Any], node: str, number: int, leased_at: int) -> HeldRun:
    attempt = replace(read_attempt(row), state=State.RUNNING, run_number=number)
    return HeldRun(
        number=number, node=node, leased_at=leased_at, attempt=attempt, document=bytes(row["document"])
    )


def _increment_return_count(connection: Connection, attempt_id: str) -> int:
    """Record that an attempt's message was returned, and return how often this has happened."""
    return connection.execute(_RETURN, {"attempt": attempt_id}).scalar() or 0


def _read_eligibility(row: Any) -> NodeEligibility:
    if not row.lives:  # None if the node has never sent a heartbeat
        return NodeEligibility.SILENT
    return NodeEligibility.TAKES_WORK if row.takes_work else NodeEligibility.IDLE


def _build_claim_refused_error(refusal: Refusal, node: str, attempt_id: str) -> RequestError:
    match refusal:
        case Refusal.EXHAUSTED:
            return RunsExhausted()
        case Refusal.OVER:
            return _build_run_over_error(attempt_id)
        case Refusal.IDLE:
            return NodeIdle(node)
        case Refusal.SILENT:
            return RunHeldElsewhere(
                f"node {node} has not beaten for {HEARTBEAT_TIMEOUT_S:g} s; beat, then ask again"
            )
    return RunHeldElsewhere(elsewhere=refusal is Refusal.ELSEWHERE)


def _build_foreign_run_error(node: str, number: int) -> RequestError:
    return RequestError("run.foreign", f"node {node} does not hold run {number} of this attempt")


def _build_run_over_error(attempt_id: str) -> RequestError:
    return RequestError("run.over", f"attempt {attempt_id} no longer needs a run; drop the message")


async def _build_node_document(document: bytes) -> str:
    """Return a submission in the format for nodes. Large submissions are parsed in a thread."""
    # A canonical document without a parent has `"parent_id":null`; such a document usually needs no parsing.
    if b'"parent_id":"' not in document and not any(name in document for name in (b'"repair"', b'"webhook"')):
        return document.decode()
    if len(document) > LARGE_DOCUMENT_BYTES:
        return await asyncio.to_thread(_strip_gateway_fields, document)
    return _strip_gateway_fields(document)


def _strip_gateway_fields(document: bytes) -> str:
    submission = parse_json(document)
    if isinstance(submission, dict):
        submission = {name: value for name, value in submission.items() if name not in GATEWAY_FIELDS}
    return serialize_compact(submission).decode()
