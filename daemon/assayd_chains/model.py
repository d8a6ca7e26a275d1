"""Defines the values of a chain, its rounds, and their answers.

A chain starts with a natural-language request or a failed attempt. It repeats the sequence of prompt,
answer, submission and attempt until the verdict ends it. A *generation* starts with a request, a *repair*
with a failed attempt; after the first failed attempt, both proceed in the same way. A *round* has one
budget of answers and ends with an outcome; a hint to a generation that has ended begins the next round.
All properties are derived from the recorded values. The next step is decided in `decide.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from assayd.model.prompting import Proposal
from assayd.model.report import Verdict
from assayd.model.submission import Peer

Document = Mapping[str, object]

REPAIRED = "repaired"
"""The name of the outcome `VALIDATED` for repairs in documents, rows, metrics and logs."""

UNUSABLE_CAUSE = "fix.unusable"
"""The cause with which a fix is shown and stored if it doesn't fit into the submission."""


QUESTION_FORM = "question"


class Outcome(StrEnum):
    """The outcome of a chain or round, as in generation documents."""

    VALIDATED = "validated"
    """An attempt of the chain was validated."""
    EXHAUSTED = "exhausted"
    """The budget of answers is used up."""
    STUCK = "stuck"
    """The same failure recurred although the code and the strategy had changed."""
    TIMEOUT = "timeout"
    """The time limit was reached."""
    PROVIDER_FAILED = "provider_failed"
    """The provider returned no usable reply, even after retries."""
    TERMINAL = "terminal"
    """New code can't help, because of a policy violation or an internal error."""
    CANCELLED = "cancelled"
    """A user cancelled the chain."""
    QUESTION = "question"
    """The provider asked the user a question, which a hint can answer."""

    @property
    def repair_outcome_name(self) -> str:
        """Return the name of this outcome in repair documents."""
        return REPAIRED if self is Outcome.VALIDATED else self.value

    @classmethod
    def from_repair_outcome_name(cls, word: str) -> Outcome:
        """Return the outcome with this name in repair documents."""
        return cls.VALIDATED if word == REPAIRED else cls(word)


class Strategy(StrEnum):
    """The kind of answer that a prompt requests from the provider."""

    WRITE = "write"
    """Write a submission from the user's request."""
    FIX = "fix"
    """Show the failure and ask for a correction."""
    DIFFERENT = "different"
    """Report that the last answer repeated an earlier one, and request a different answer."""
    RETHINK = "rethink"
    """Report that the failure recurred, and request another approach to the complete passage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCost:
    """The cost of one reply. A number of tokens is None if the provider doesn't report it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of a provider, with its result.

    `number` counts from 1: across a generation for answers to its request (*drafts*), within a round for
    *fixes*. `error` is the failure that the request for a fix contained. `problem` is the reason why the
    answer doesn't fit into a submission, and `duplicate` is True if the answer repeats an earlier one; such
    answers aren't run. The id of an attempt is chosen before it is submitted. `fingerprint` identifies the
    failure of a fix's attempt, and `digest` identifies the normal form of the patched submission. If `form`
    is ``files`` or ``steps``, `text` contains the files or steps as JSON; if `form` is ``question``, `text`
    is the provider's question.
    """

    number: int
    strategy: Strategy
    asked_at: datetime
    reason: str
    text: str
    passage: str
    form: str = "code"
    error: str = ""
    problem: str | None = None
    digest: str | None = None
    duplicate: bool = False
    attempt_id: str | None = None
    verdict: Verdict | None = None
    cause: str | None = None
    fingerprint: str | None = None
    usage: ReplyCost = ReplyCost()

    @property
    def is_draft(self) -> bool:
        """Return whether the answer is a draft, which responds to the request of a generation."""
        return self.strategy is Strategy.WRITE

    @property
    def is_question(self) -> bool:
        """Return whether the answer is a question to the user."""
        return self.form == QUESTION_FORM

    @property
    def under_way(self) -> bool:
        """Return whether the answer has an attempt that doesn't have a verdict yet."""
        return self.attempt_id is not None and self.verdict is None

    @property
    def proposal(self) -> Proposal:
        """Return the content that the answer proposes, such as code or files."""
        match self.form:
            case "files":
                return Proposal(files=json.loads(self.text))
            case "steps":
                return Proposal(steps=tuple(json.loads(self.text)))
            case _:
                return Proposal(code=self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetGrant:
    """A user's contribution (a hint, an edit or a restart), which grants a full budget.

    `hint` is None if the user edited the code or restarted the chain.
    """

    uid: int | None
    at: datetime
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """The natural-language request that starts a generation.

    `context` is additional input in the form that the kind declares. `webhook` is the URL that is notified
    when the generation ends.
    """

    peer: Peer
    policy: str
    intent: str
    context: Document = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    webhook: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failed attempt with which fixes begin.

    `at` is the time at which it failed or the repair was requested.

    `fingerprint` and `digest` are None until the attempt has failed and its report has been read.
    """

    attempt_id: str
    at: datetime
    fingerprint: str | None = None
    digest: str | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRound:
    """The answers of one budget: drafts until one can be submitted, and fixes if its attempt fails.

    `follows` is the attempt that precedes the drafts, if any. `repair_id` is the id of the repair that
    consists of `failure` and its fixes; it is chosen before the attempt is submitted. `fallback` offers
    rules instead of code.
    """

    grant: BudgetGrant | None = None
    follows: str | None = None
    drafts: tuple[Answer, ...] = ()
    repair_id: str | None = None
    failure: Failure | None = None
    fixes: tuple[Answer, ...] = ()
    fallback: Document | None = None
    outcome: Outcome | None = None
    detail: str | None = None
    finished_at: datetime | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Return all answers of the round in order of creation."""
        return (*self.drafts, *self.fixes)

    @property
    def last(self) -> Answer | None:
        """Return the newest answer, or None if the round has no answers."""
        return self.answers[-1] if self.answers else None

    @property
    def last_attempt_id(self) -> str | None:
        """Return the id of the newest attempt that was run, or of the attempt that the round follows.

        Return None if neither attempt exists.
        """
        begun_with = self.failure.attempt_id if self.failure is not None else self.follows
        ran = (answer.attempt_id for answer in reversed(self.answers) if answer.attempt_id is not None)
        return next(ran, begun_with)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Return the fingerprints of the failures in order, one for each attempt that was run."""
        first = self.failure.fingerprint if self.failure is not None else None
        found = (first, *(fix.fingerprint for fix in self.fixes))
        return tuple(one for one in found if one is not None)

    @property
    def digests(self) -> frozenset[str | None]:
        """Return the digests of the normal forms of the failed submission and of all its fixes."""
        first = self.failure.digest if self.failure is not None else None
        return frozenset({first, *(fix.digest for fix in self.fixes)})

    def replace_last(self, answer: Answer) -> ChainRound:
        """Return a copy of the round in which the last answer is replaced."""
        if answer.is_draft:
            return replace(self, drafts=(*self.drafts[:-1], answer))
        return replace(self, fixes=(*self.fixes[:-1], answer))

    def with_added_answer(self, answer: Answer) -> ChainRound:
        """Return a copy of the round with another answer."""
        if answer.is_draft:
            return replace(self, drafts=(*self.drafts, answer))
        return replace(self, fixes=(*self.fixes, answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A recorded chain. If `words` is None, the chain started with a failed attempt.

    A round has at most `max_attempts` answers, and times out at `ends_at`. This time is measured from the
    round's failure.
    """

    id: str
    kind: str
    provider: str
    uid: int
    max_attempts: int
    started_at: datetime
    ends_at: datetime
    words: GenerationRequest | None = None
    rounds: tuple[ChainRound, ...]

    @property
    def round(self) -> ChainRound:
        """Return the newest round."""
        return self.rounds[-1]

    @property
    def outcome(self) -> Outcome | None:
        """Return the outcome of the chain, or None if the chain is unfinished."""
        return self.round.outcome

    @property
    def last_attempt_id(self) -> str | None:
        """Return the id of the attempt that is fixed next, or of the final attempt."""
        return self.round.last_attempt_id

    @property
    def drafts(self) -> tuple[Answer, ...]:
        """Return the drafts of all rounds, in order of creation."""
        return tuple(draft for each in self.rounds for draft in each.drafts)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Return all answers of the chain in order of creation."""
        return tuple(answer for each in self.rounds for answer in each.answers)

    @property
    def grants(self) -> tuple[BudgetGrant, ...]:
        """Return the grants of full budgets by users, in order of creation."""
        return tuple(each.grant for each in self.rounds if each.grant is not None)

    @property
    def hints(self) -> tuple[str, ...]:
        """Return the users' hints, in order of creation."""
        return tuple(grant.hint for grant in self.grants if grant.hint is not None)

    @property
    def question(self) -> str:
        """Return the question that the newest hint answers, or an empty string."""
        before = self.rounds[-2].last if len(self.rounds) > 1 else None
        return before.text if before is not None and before.is_question else ""

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """Return the repairs of all rounds in order of creation."""
        found = (self._build_repair(number) for number in range(len(self.rounds)))
        return tuple(repair for repair in found if repair is not None)

    @property
    def repair(self) -> Repair | None:
        """Return the repair of the newest round, or None if the round has no failed attempt."""
        return self._build_repair(len(self.rounds) - 1)

    def _build_repair(self, number: int) -> Repair | None:
        each, grants = self.rounds[number], self.rounds[: number + 1]
        if each.failure is None or each.repair_id is None:
            return None
        given = [one.grant for one in grants if one.grant is not None]
        hints = "\n".join(grant.hint for grant in given if grant.hint is not None)
        return Repair(
            id=each.repair_id,
            kind=self.kind,
            provider=self.provider,
            uid=self.uid,
            max_attempts=self.max_attempts - len(each.drafts),
            ends_at=self.ends_at,
            failure=each.failure,
            fixes=each.fixes,
            hint=hints or None,
            granted_by=given[-1].uid if given else None,
            generation_id=None if self.words is None else self.id,
            fallback=each.fallback,
            outcome=each.outcome,
            detail=each.detail,
            finished_at=each.finished_at,
        )

    def replace_last_round(self, changed: ChainRound) -> Chain:
        """Return a copy of the chain in which the last round is replaced."""
        return replace(self, rounds=(*self.rounds[:-1], changed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A failed attempt with its fixes, which correspond to one round of a chain.

    This form is used by `/v1/repairs` and by the store. `granted_by` is the user whose contribution granted
    a full budget.
    """

    id: str
    kind: str
    provider: str
    uid: int
    max_attempts: int
    ends_at: datetime
    failure: Failure
    fixes: tuple[Answer, ...] = ()
    hint: str | None = None
    granted_by: int | None = None
    generation_id: str | None = None
    fallback: Document | None = None
    outcome: Outcome | None = None
    detail: str | None = None
    finished_at: datetime | None = None

    @property
    def attempt_id(self) -> str:
        """Return the id of the attempt with which the repair began."""
        return self.failure.attempt_id

    @property
    def started_at(self) -> datetime:
        """Return the time at which the attempt failed or the repair was requested."""
        return self.failure.at

    @property
    def chain_id(self) -> str:
        """Return the id of the chain that contains the repair's round."""
        return self.generation_id or self.id

    def chain(self) -> Chain:
        """Return the chain of a repair that doesn't belong to a generation."""
        granted = self.granted_by is not None or self.hint is not None
        only = ChainRound(
            grant=BudgetGrant(uid=self.granted_by, at=self.started_at, hint=self.hint) if granted else None,
            repair_id=self.id,
            failure=self.failure,
            fixes=self.fixes,
            fallback=self.fallback,
            outcome=self.outcome,
            detail=self.detail,
            finished_at=self.finished_at,
        )
        return Chain(
            id=self.id,
            kind=self.kind,
            provider=self.provider,
            uid=self.uid,
            max_attempts=self.max_attempts,
            started_at=self.started_at,
            ends_at=self.ends_at,
            rounds=(only,),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainView:
    """A chain as shown to followers. `heard` is the part of a streamed answer received so far."""

    chain: Chain
    heard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTerms:
    """The terms of a repair as requested by a user.

    `code` is the user's first fix, and `fresh` restarts from the first submission. The default provider is
    `rules` or, if there is a hint, the only provider that reads hints.
    """

    provider: str | None = None
    max_attempts: int | None = None
    hint: str | None = None
    code: str | None = None
    fresh: bool = False
    uid: int | None = None

    @property
    def grants(self) -> bool:
        """Return whether the user gave a hint or code or restarts; the repair then gets a full budget."""
        return self.hint is not None or self.code is not None or self.fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationTerms:
    """The terms of a generation as requested by a user. None selects the default."""

    kind: str
    intent: str
    context: Document = field(default_factory=dict)
    policy: str | None = None
    provider: str | None = None
    max_attempts: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    webhook: str | None = None


def compute_budget_left(earlier: Sequence[Repair], most: int) -> int:
    """Return the number of fixes that remain from the last full budget that a user granted.

    Args:
        earlier: the repairs in order of creation.
        most: the full budget.
    """
    used = 0
    for repair in earlier:
        used = len(repair.fixes) if repair.granted_by is not None else used + len(repair.fixes)
    return max(most - used, 0)


TOKENS = ("input_tokens", "output_tokens")


def sum_tokens(answers: Sequence[Answer], name: str) -> int | None:
    """Return the sum of one of the `TOKENS` over answers, or None if no provider reported it."""
    counted = [count for one in answers if (count := getattr(one.usage, name)) is not None]
    return sum(counted) if counted else None


def format_proposal(proposal: Proposal) -> str:
    """Return a proposal as one string, which is the code or the JSON of the files or steps."""
    if proposal.form == "code":
        return proposal.code
    whole = proposal.files if proposal.form == "files" else [dict(step) for step in proposal.steps]
    return json.dumps(whole, ensure_ascii=False, sort_keys=True, indent=1)
