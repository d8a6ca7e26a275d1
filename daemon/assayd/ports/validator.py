"""What a kind of submission has to bring: one file that says everything about it.

A validator is a module-level object named `validator` in `validators/<kind>.py`. Nothing is inherited
and everything is named; `tests/contract` and `assay doctor` run the samples of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from pydantic import BaseModel

from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement, Rating
from assayd.model.run import Limits, RunResult, RunSpec
from assayd.model.submission import Sample

STDIN = "stdin"
"""The name, among the files of a command line, of what came over standard input."""


class OnFail(StrEnum):
    """What a static stage with errors does to the stages after it."""

    STOP = "stop"
    """They are skipped."""
    CONTINUE = "continue"
    """They run; only the container is out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One static stage: a pure function over payload and policy. Runs in an analysis worker."""

    name: str
    check: Callable[[BaseModel, ExecutionPolicy], Sequence[Finding]]
    on_fail: OnFail = OnFail.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What `assay validate KIND FILE…` was given beside the files."""

    sample_paths: tuple[str, ...] = ()
    input: Mapping[str, object] | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Labelling(Protocol):
    """A validator, beside all else, whose payloads say by which labels they want to be found."""

    def labels(self, payload: BaseModel) -> Mapping[str, str]:
        """Return labels that the payload implies; those of the submission itself come first."""
        ...


class Validator(Protocol):
    """A kind of submission."""

    @property
    def kind(self) -> str:
        """The kind's name in a submission."""
        ...

    @property
    def payload(self) -> type[BaseModel]:
        """The strict model of its payload."""
        ...

    @property
    def default_policy(self) -> str:
        """The profile that a submission gets when it names none."""
        ...

    @property
    def image(self) -> str:
        """The image that `plan` uses, without prefix (``python``)."""
        ...

    @property
    def rules(self) -> Sequence[Rule]:
        """Every rule that a finding of this kind can name."""
        ...

    @property
    def stages(self) -> Sequence[Stage]:
        """The static stages, in order."""
        ...

    @property
    def runtime_stages(self) -> Sequence[str]:
        """The stages that `judge` speaks of, in order, after the static ones."""
        ...

    @property
    def samples(self) -> Sequence[Sample]:
        """Submissions with the verdict and the rules that they must get."""
        ...

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        """Build the plain JSON payload that files on a command line mean.

        Raises: RequestError, naming the file or option at fault.
        """
        ...

    def prepare(self, payload: BaseModel) -> BaseModel:
        """Return the payload in the form that is checked, planned and judged, e.g. cleaned.

        May parse hostile text: it runs in an analysis worker, once, and what comes out is what `plan`
        and `judge` get. They parse nothing.
        """
        ...

    def plan(self, payload: BaseModel, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        """Decide what is to run; None when the static stages say it all."""
        ...

    def judge(self, payload: BaseModel, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Turn the raw record of the run into findings and cases. Pure; all guest bytes are hostile."""
        ...

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Say, for a model that tries again, what stage failed, on what, and what is allowed.

        `findings` are those of every stage that failed, in order; `stage` is the first of them. What is
        allowed is what the effective policy says; without one, nothing is said of it.
        """
        ...


@runtime_checkable
class Rates(Protocol):
    """What a validator brings beside, when its kind rates submissions."""

    def rate(self, payload: BaseModel, findings: Sequence[Finding]) -> Rating:
        """Rate a submission that was validated or failed, by all findings of its report.

        `payload` is as it was submitted: nothing of it is parsed here.
        """
        ...


@runtime_checkable
class Narrowing(Protocol):
    """A kind whose payload has a say in its policy. Optional."""

    def narrow(self, payload: BaseModel, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Return the policy with what the payload asks for; it can only tighten.

        Raises: RequestError, when the payload and the policy do not go together.
        """
        ...


@runtime_checkable
class Preparing(Protocol):
    """A kind whose prepared payload has more fields than a submitted one. Optional."""

    @property
    def prepared(self) -> type[BaseModel]:
        """The model of what `prepare` gives."""
        ...
