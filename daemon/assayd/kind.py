"""The class `Kind`: every kind of submission is a subclass of it with one instance.

A kind decides and does nothing: no I/O, no clock. Its static stages and everything that parses submitted text
run in an analysis worker, its code runs in a container, and the kind says what both mean. Whatever needs a
library that a kind must not import (HTTP, the database) is named by a reference,
``package.module:name``. What the command line shows of a kind is in `ports/command_line.py`.

Source: docs/adding-a-validator.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Generic

from pydantic import BaseModel
from typing_extensions import TypeVar

from assayd.errors import ConfigError
from assayd.findings.briefing import allowances, answer_form, usual
from assayd.findings.retry_context import (
    headline_of,
    is_unreadable,
    needs_allowances,
    repair_context,
    retry_context,
    strip_layout,
)
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import (
    Document,
    Example,
    PromptContext,
    PromptParts,
    Proposal,
    RepairContext,
    SourcePart,
    Taken,
)
from assayd.model.report import Judgement, Rating
from assayd.model.run import Limits, RunResult, RunSpec
from assayd.model.submission import Sample

P = TypeVar("P", bound=BaseModel, default=Any)
"""A kind's submitted payload."""
Q = TypeVar("Q", bound=BaseModel, default=P)
"""Its payload as `Kind.prepare` returns it: the same model, unless `Kind.prepared` names another."""


class FailureAction(StrEnum):
    """The effect of a static stage's errors on the stages after it."""

    STOP = "stop"
    """They are skipped."""
    CONTINUE = "continue"
    """They run; only the container is out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Generic[P]):
    """One static stage: a pure function of payload and policy that runs in an analysis worker."""

    name: str
    check: Callable[[P, ExecutionPolicy], Sequence[Finding]]
    on_fail: FailureAction = FailureAction.STOP


class Cap(StrEnum):
    """The measure for the size of a part of a payload; the value is the name of the limit setting."""

    SOURCE = "source_bytes"
    """One text, in bytes."""
    INPUTS = "inputs_bytes"
    """Any JSON, in bytes of its canonical form."""
    SAMPLE_PATHS = "sample_paths"
    """A list of sample paths, by its length."""
    STEPS = "steps"
    """A list of steps, by its length."""


class Kind(ABC, Generic[P, Q]):
    """A kind of submission, generic in its payload type; without a parameter, a kind of any payload.

    Attributes:
        name: the kind's name in a submission.
        payload: the strict model of its payload.
        prepared: the model of the result of `prepare`, if that has more fields than a submitted payload.
        default_policy: the profile of a submission that names none.
        image: the image that `plan` uses, without prefix.
        any_image: whether a profile may name another image; `plan` then asks for `image_of`.
        bounded: the cap of each part of the payload by its dotted path; ``*`` stands for every entry
            (``steps.*.content``). None caps every string of the payload as a source.
        runtime_stages: the stages that `judge` speaks of, in order, after the static ones.
        samples: submissions with the verdict and the rules that they must get.
        headlines: by stage, the first line of the retry context of a submission that failed there.
        reminders: what a model must keep in mind whenever it writes a submission of this kind.
        offer: what the image has, for a model, if the policy allows every import.
        code_field: the field of the payload that holds the submitted text. A kind whose submissions are
            more than one text overrides `passage`, `patch` and `answered`.
        checked_parts: dotted paths of the texts in a prepared payload that are checked and run, as in
            `bounded`; a signed verdict names them. Empty: the text of `code_field`.
        language: the language of that text.
        beginning: a regular expression for how a program in that language begins, so that an answer that is
            such a program, without JSON around it, is accepted. Python, bash and SQL need none.
        comparison: how results are compared with what cases expect, by `compare` of a case; a model is sent
            those that its cases have.
        task: what a model is asked to write.
        example: another request and its answer, which a model is shown. Needed with `generation_context`;
            the answer has the requested form.
        generation_context: the strict model of the data with a request in words; None for a kind whose
            submissions can't be written from words.
        forms: the forms of a `Proposal` that it takes: ``code``, ``files``, ``steps``.
        recorder: refers to a `store.recorder.Recorder`, for a kind with its own tables.
        routes: refers to a `fastapi.APIRouter`, whose paths begin with ``/v1/``.
        helpers: optional programs of the kind's workers, each with the effect of its absence.
        worker: refers to a function that prepares an analysis worker, called once its limits are set.
    """

    name: str
    payload: type[P]
    prepared: type[BaseModel] | None = None
    default_policy: str
    image: str = "python"
    any_image: bool = False
    bounded: Mapping[str, Cap] | None = None
    runtime_stages: Sequence[str] = ("sandbox",)
    samples: Sequence[Sample] = ()
    headlines: ClassVar[Mapping[str, str]] = {}
    reminders: Sequence[str] = ()
    offer: str | None = None
    code_field: str = "code"
    checked_parts: Sequence[str] = ()
    language: str = "python"
    beginning: str = ""
    comparison: ClassVar[Mapping[str, str]] = {}
    task: str = ""
    example: Example
    generation_context: type[BaseModel] | None = None
    forms: frozenset[str] = frozenset({"code"})
    recorder: str = ""
    routes: str = ""
    helpers: ClassVar[Mapping[str, str]] = {}
    worker: str = ""

    # --- a verdict: static stages, a plan, a judgement

    @property
    @abstractmethod
    def rules(self) -> Sequence[Rule]:
        """Every rule that a finding of this kind can name."""

    @property
    @abstractmethod
    def stages(self) -> Sequence[Stage[P]]:
        """The static stages, in order."""

    def prepare(self, payload: P) -> Q:
        """Return the payload in the form that is checked, planned and judged, e.g. cleaned.

        May parse hostile text: it runs in an analysis worker, once. `plan` and `judge` get its result and
        parse nothing.
        """
        return payload  # type: ignore[return-value]  # P and Q are one model unless this is overridden

    @abstractmethod
    def plan(self, payload: P, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        """Return the run spec; None if the static stages decide alone.

        `payload` is a prepared one, except for samples that only tell which containers are wanted.
        """

    @abstractmethod
    def judge(self, payload: Q, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Turn the raw record of the run into findings and cases. Pure; all guest bytes are hostile."""

    def prepare_trial(self, payload: Q, policy: ExecutionPolicy) -> Q:
        """Return the prepared payload with the data for `plan_trial`, if the policy requires a trial.

        May parse hostile text: it runs in an analysis worker, once, after `prepare`.
        """
        return payload

    def plan_trial(
        self, payload: Q, policy: ExecutionPolicy, limits: Limits, result: RunResult
    ) -> RunSpec | None:
        """Decide what else is to run of a submission that has passed; None for nothing.

        It runs in a further container and can't change the verdict, unless a profile makes errors of the
        findings of `judge_trial`.
        """
        return None

    def judge_trial(
        self, payload: Q, policy: ExecutionPolicy, result: RunResult, trial: RunResult | None
    ) -> Mapping[str, Sequence[Finding]]:
        """Return findings about quality by stage, from the run that passed and from its trial. Pure.

        `trial` is None if nothing had to run, or no container could be had.
        """
        return {}

    def image_of(self, policy: ExecutionPolicy) -> str:
        """Return the name, without prefix, of the image that a submission runs in under a policy."""
        return policy.image or self.image

    def narrow(self, payload: P, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Return the policy, tightened to the limits that the payload states.

        Raises: RequestError, if the payload and the policy do not go together.
        """
        return policy

    def labels(self, payload: P) -> Mapping[str, str]:
        """Return labels that the payload implies; labels of the submission itself come first."""
        return {}

    def rate(self, payload: P, findings: Sequence[Finding]) -> Rating | None:
        """Rate a submission that was validated or failed, by all findings of its report; None for no rating.

        `payload` is the submitted one: nothing of it is parsed here.
        """
        return None

    def withheld(self, payload: P) -> bool:
        """Return whether a validated submission can't be approved, because parts of the checks are skipped.

        `payload` is the submitted one: nothing of it is parsed here.
        """
        return False

    def integrity(self, payload: P) -> str | None:
        """Return what the score of a submission rests on; None for a kind without scores.

        `payload` is the submitted one: nothing of it is parsed here.
        """
        return None

    def use_tables(self, folders: Sequence[Path]) -> None:
        """Add an operator's rules and words, from these folders, in this process. Raises: ConfigError."""
        message = f"the kind {self.name} doesn't support tables"
        raise ConfigError("tables.unknown", message, field=f"tables.{self.name}")

    # --- for a model: failure, passage to fix, request. All of it parses untrusted text.

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Describe the failed stage, its inputs and the allowed names, for a model's next try.

        `findings` are those of every stage that failed, in order, and those about quality; `stage` is the
        first that failed, or `complete`. Without an effective policy, allowed names are omitted.
        """
        headline = headline_of(self.headlines, stage)
        return retry_context(findings, headline=headline, reminders=self.rules_for(policy))

    def rules_for(self, policy: ExecutionPolicy | None) -> tuple[str, ...]:
        """Return what a model must keep in mind: the kind's reminders, and what the policy allows."""
        return (*self.reminders, *allowances(policy, offer=self.offer))

    def code_of(self, answer: str) -> str:
        """Return the code of a model's answer, without prose and fences around it."""
        return answer

    def passage(self, payload: P) -> SourcePart:
        """Return the text of the submission to fix; an empty passage if it has none."""
        text = getattr(payload, self.code_field, None)
        if not isinstance(text, str):
            return SourcePart(name="", language=self.language, text="")
        return SourcePart(name=self.code_field, language=self.language, text=text, beginning=self.beginning)

    def surroundings(self, payload: P) -> Sequence[PromptContext]:
        """Return what a fix of the submission has to fit into."""
        return ()

    def context(self, payload: P, report: Document, policy: ExecutionPolicy | None = None) -> RepairContext:
        """Return the passage to fix, given the submitted payload, its failed report and effective policy.

        Omits the rules and surroundings if the code isn't valid in its language, and the allowed modules if
        the fault has nothing to do with names.
        """
        unreadable = is_unreadable(report)
        allowed = usual(policy) if policy and needs_allowances(report, self.runtime_stages) else None
        return repair_context(
            self.passage(payload),
            report,
            instructions=() if unreadable else (*self.rules_for(allowed), *self._compared(payload)),
            runtime_stages=self.runtime_stages,
            surroundings=() if unreadable else self.surroundings(payload),
        )

    def patch(self, payload: P, passage: str, code: str) -> Document:
        """Return the payload, as plain JSON, with the named passage replaced."""
        return {**payload.model_dump(mode="json", exclude_unset=True), self.code_field: self.code_of(code)}

    def normal_form(self, payload: P) -> bytes:
        """Return what stays the same if a fix changes only layout and comments."""
        return strip_layout(self.passage(payload).text, "#")

    def taken(self, payload: P) -> Taken:
        """Return which fields a submission takes out of which texts; no text, if rules can't replace code."""
        return Taken(texts=(), fields=())

    def around(self, context: Any) -> Sequence[PromptContext]:
        """Return what a submission written from words has to fit into, given the context of the request."""
        return ()

    def brief(self, context: Any, policy: ExecutionPolicy) -> PromptParts:
        """Return the prompt's part of the kind, given the context and the effective policy."""
        return PromptParts(
            task=self.task,
            rules=(*self.rules_for(usual(policy)), *self._compared(context)),
            example=self.example,
            form=answer_form(self.example.answer.form),
            surroundings=tuple(self.around(context)),
        )

    def base(self, context: Any) -> Document:
        """Return what the context says of the payload, as plain JSON: all but the answer."""
        document: Document = context.model_dump(mode="json", exclude_unset=True)
        return document

    def answered(self, base: Document, proposal: Proposal) -> Document:
        """Return a payload, as plain JSON, with a proposal in it. Raises: ValueError, if it can't hold it."""
        return {**base, self.code_field: self.code_of(proposal.code)}

    def _compared(self, asked: object) -> tuple[str, ...]:
        """Return descriptions of how results are compared with the cases of a payload or request context."""
        modes = {str(case.compare) for case in getattr(asked, "cases", ())}
        return tuple(told for mode, told in self.comparison.items() if mode in modes)
