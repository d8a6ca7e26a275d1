"""Defines the class `Kind`. Every kind of submission is the only instance of a subclass.

A kind is pure: it performs no I/O and reads no clock. Its static stages and everything that parses
submitted text run in an analysis worker, submitted code runs in a container, and the kind interprets both
results. If a part needs a library that a kind must not import (HTTP, the database), the kind specifies the
part as a reference ``package.module:name``. A kind's command-line description is in
`ports/command_line.py`.

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
from assayd.findings.briefing import describe_answer_form, describe_permissions, reduce_to_usual_imports
from assayd.findings.retry_context import (
    build_repair_context,
    build_retry_context,
    depends_on_allowances,
    is_unreadable,
    normalize_source,
    select_headline,
)
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import (
    Document,
    Example,
    ExtractedFields,
    PromptContext,
    PromptParts,
    Proposal,
    RepairContext,
    SourcePart,
)
from assayd.model.report import Judgement, Rating
from assayd.model.run import Limits, RunResult, RunSpec
from assayd.model.submission import Sample

P = TypeVar("P", bound=BaseModel, default=Any)
"""The type of a kind's submitted payload."""
Q = TypeVar("Q", bound=BaseModel, default=P)
"""The type of the payload that `Kind.prepare` returns: `Kind.prepared`, or by default the same model."""


class FailureAction(StrEnum):
    """The effect of a static stage's errors on the stages after it."""

    STOP = "stop"
    """The following stages are skipped."""
    CONTINUE = "continue"
    """The following static stages run, but the submission isn't run in a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Generic[P]):
    """A static stage: a pure function of payload and policy that runs in an analysis worker."""

    name: str
    check: Callable[[P, ExecutionPolicy], Sequence[Finding]]
    on_fail: FailureAction = FailureAction.STOP


class Cap(StrEnum):
    """The size limits for parts of a payload. Each value is the name of the limit's setting."""

    SOURCE = "source_bytes"
    """The size of one string, in bytes."""
    INPUTS = "inputs_bytes"
    """The size of any JSON value, in bytes of its canonical form."""
    SAMPLE_PATHS = "sample_paths"
    """The length of a list of sample paths."""
    STEPS = "steps"
    """The length of a list of steps."""


class Kind(ABC, Generic[P, Q]):
    """A kind of submission, generic in its payload type. Without a type parameter, it accepts any payload.

    Attributes:
        name: the kind's name in a submission.
        payload: the strict model of its payload.
        prepared: the model of the result of `prepare`, if that has more fields than a submitted payload.
        default_policy: the profile of a submission that names none.
        image: the image that `plan` uses, without prefix.
        any_image: whether a profile can select another image; `plan` then calls `select_image`.
        bounded: the cap of each part of the payload by its dotted path; ``*`` stands for every entry
            (``steps.*.content``). If it is None, every string of the payload has the limit of a source.
        runtime_stages: the stages that `judge` reports, in order, after the static ones.
        samples: submissions with their expected verdicts and rules.
        headlines: for each stage, the first line of the retry context of a submission that failed in it.
        reminders: the requirements for a model that writes a submission of this kind.
        offer: a description of the image's content for a model, used if the policy allows every import.
        code_field: the field of the payload that holds the submitted text. A kind whose submissions consist
            of several texts overrides `passage`, `patch` and `answered`.
        checked_parts: dotted paths of the texts in a prepared payload that are checked and run, as in
            `bounded`; a signed verdict lists them. If it is empty, the text of `code_field` is used.
        language: the language of that text.
        beginning: a regular expression that matches the beginning of a program in that language, so that an
            answer that consists of such a program, without JSON, is accepted. Python, bash and SQL don't
            need it.
        comparison: descriptions of how results are compared with expected results, by a case's `compare`
            value; a model receives those that its cases use.
        task: a description of the code that a model must write.
        example: a different request with its answer, for the prompt. Required with `generation_context`;
            the answer has the requested form.
        generation_context: the strict model of the data that accompanies a natural-language request; None
            for a kind whose submissions can't be generated.
        forms: the forms of a `Proposal` that it accepts: ``code``, ``files``, ``steps``.
        recorder: a reference to a `store.recorder.Recorder`, for a kind with its own tables.
        routes: a reference to a `fastapi.APIRouter`, whose paths begin with ``/v1/``.
        helpers: optional programs that the kind's workers use, each with the effect of its absence.
        worker: a reference to a function that prepares an analysis worker, called after its limits are set.
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
        """Return every rule that a finding of this kind can have."""

    @property
    @abstractmethod
    def stages(self) -> Sequence[Stage[P]]:
        """Return the static stages, in order."""

    def prepare(self, payload: P) -> Q:
        """Return the (for example normalized) form of the payload that is checked, planned and judged.

        This method can parse hostile text, because it runs once in an analysis worker. `plan` and `judge`
        receive its result and parse nothing.
        """
        return payload  # type: ignore[return-value]  # P and Q are one model unless this is overridden

    @abstractmethod
    def plan(self, payload: P, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        """Return the run spec, or None if the static stages alone decide the verdict.

        `payload` is prepared, except for samples that are used only to determine the required containers.
        """

    @abstractmethod
    def judge(self, payload: Q, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Convert the raw record of the run to findings and cases. All bytes from the guest are hostile."""

    def prepare_trial(self, payload: Q, policy: ExecutionPolicy) -> Q:
        """Return the prepared payload with the data for `plan_trial`, if the policy requires a trial.

        By default, return the payload unchanged. This method can parse hostile text, because it runs once in
        an analysis worker, after `prepare`.
        """
        return payload

    def plan_trial(
        self, payload: Q, policy: ExecutionPolicy, limits: Limits, result: RunResult
    ) -> RunSpec | None:
        """Return the run spec of a passed submission's trial, or None if no trial is needed.

        The trial runs in another container and can't change the verdict, unless a profile turns the
        findings of `judge_trial` into errors.
        """
        return None

    def judge_trial(
        self, payload: Q, policy: ExecutionPolicy, result: RunResult, trial: RunResult | None
    ) -> Mapping[str, Sequence[Finding]]:
        """Return quality findings by stage, derived from the passed run and its trial. Pure.

        `trial` is None if no trial was needed or no container was available.
        """
        return {}

    def select_image(self, policy: ExecutionPolicy) -> str:
        """Return the image in which a submission runs, as a name without prefix.

        It is the policy's image, or the kind's if the policy has none.
        """
        return policy.image or self.image

    def narrow(self, payload: P, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Return the policy, tightened to the limits that the payload states.

        By default, return it unchanged.

        Raises: RequestError, if the payload and the policy are incompatible.
        """
        return policy

    def labels(self, payload: P) -> Mapping[str, str]:
        """Return the labels derived from the payload; by default, none.

        The submission's own labels take precedence.
        """
        return {}

    def rate(self, payload: P, findings: Sequence[Finding]) -> Rating | None:
        """Return the kind's rating of a validated or failed submission, or None if the kind has no ratings.

        `payload` is the submitted payload, which this method must not parse.
        """
        return None

    def withheld(self, payload: P) -> bool:
        """Return whether a validated submission can't be approved, because some checks were skipped.

        `payload` is the submitted payload, which this method must not parse.
        """
        return False

    def integrity(self, payload: P) -> str | None:
        """Return the basis of a submission's score, or None for a kind without scores.

        `payload` is the submitted payload, which this method must not parse.
        """
        return None

    def use_tables(self, folders: Sequence[Path]) -> None:
        """Load an operator's tables of rules and words from folders into this process.

        Raises: ConfigError, if a table is invalid or the kind doesn't support tables.
        """
        message = f"the kind {self.name} doesn't support tables"
        raise ConfigError("tables.unknown", message, field=f"tables.{self.name}")

    # --- for a model: failure, passage to fix, request. All of it parses untrusted text.

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Return the text for a model's next try: the failed stage, its findings and the allowed names.

        `findings` are the findings of every failed stage, in order, and the quality findings; `stage` is the
        first failed stage, or `complete`. Without an effective policy, allowed names are omitted.
        """
        headline = select_headline(self.headlines, stage)
        return build_retry_context(findings, headline=headline, reminders=self.list_requirements(policy))

    def list_requirements(self, policy: ExecutionPolicy | None) -> tuple[str, ...]:
        """Return the requirements for a model: the kind's reminders, and the permissions of the policy."""
        return (*self.reminders, *describe_permissions(policy, offer=self.offer))

    def get_code(self, answer: str) -> str:
        """Return the code in a model's answer. By default, the whole answer is code."""
        return answer

    def passage(self, payload: P) -> SourcePart:
        """Return the text of the submission that must be fixed, or an empty passage if there is none."""
        text = getattr(payload, self.code_field, None)
        if not isinstance(text, str):
            return SourcePart(name="", language=self.language, text="")
        return SourcePart(name=self.code_field, language=self.language, text=text, beginning=self.beginning)

    def surroundings(self, payload: P) -> Sequence[PromptContext]:
        """Return the context that a fix of the submission must be compatible with (by default, none)."""
        return ()

    def context(self, payload: P, report: Document, policy: ExecutionPolicy | None = None) -> RepairContext:
        """Return the context of a repair, given the submitted payload, the failed report and the policy.

        The context omits the rules and surroundings if the code isn't valid in its language, and the
        allowed modules if the fault isn't related to names.
        """
        unreadable = is_unreadable(report)
        allowed = (
            reduce_to_usual_imports(policy)
            if policy and depends_on_allowances(report, self.runtime_stages)
            else None
        )
        return build_repair_context(
            self.passage(payload),
            report,
            instructions=() if unreadable else (*self.list_requirements(allowed), *self._compared(payload)),
            runtime_stages=self.runtime_stages,
            surroundings=() if unreadable else self.surroundings(payload),
        )

    def patch(self, payload: P, passage: str, code: str) -> Document:
        """Return the payload as plain JSON, in which the passage to fix is replaced by the given text."""
        return {**payload.model_dump(mode="json", exclude_unset=True), self.code_field: self.get_code(code)}

    def normalize_text(self, payload: P) -> bytes:
        """Return a normal form of the text, which doesn't depend on layout and comments."""
        return normalize_source(self.passage(payload).text, "#")

    def taken(self, payload: P) -> ExtractedFields:
        """Return the submission's sample strings, and the fields that it extracts from them.

        Both are empty if extraction rules can't replace the submitted code.
        """
        return ExtractedFields(texts=(), fields=())

    def around(self, context: Any) -> Sequence[PromptContext]:
        """Return the generation request's context, as shown in a prompt. By default, it is empty."""
        return ()

    def brief(self, context: Any, policy: ExecutionPolicy) -> PromptParts:
        """Return the kind's parts of a generation prompt, for a request context and the effective policy."""
        return PromptParts(
            task=self.task,
            rules=(*self.list_requirements(reduce_to_usual_imports(policy)), *self._compared(context)),
            example=self.example,
            form=describe_answer_form(self.example.answer.form),
            surroundings=tuple(self.around(context)),
        )

    def base(self, context: Any) -> Document:
        """Return the payload fields that the request's context determines, as plain JSON."""
        document: Document = context.model_dump(mode="json", exclude_unset=True)
        return document

    def answered(self, base: Document, proposal: Proposal) -> Document:
        """Return `base` with a model's proposal inserted, as plain JSON.

        Raises: ValueError, if the proposal is invalid.
        """
        return {**base, self.code_field: self.get_code(proposal.code)}

    def _compared(self, asked: object) -> tuple[str, ...]:
        """Return the descriptions of the comparisons that the cases of a payload or request context use."""
        modes = {str(case.compare) for case in getattr(asked, "cases", ())}
        return tuple(told for mode, told in self.comparison.items() if mode in modes)
