"""What a kind of submission has to bring: the protocol `Validator`, and what it may bring beside it.

A validator is a module-level object named `validator` in `kinds/<kind>/validator.py`, or one that another
distribution offers. Nothing is inherited and everything is named: a validator that has the members of one of
the protocols below `Validator`, or of those in `ports/repairable.py`, is taken for what they say.
`tests/contract` and `assay doctor` run the samples of all kinds.

What needs a library that a validator must not import (HTTP, the database) is named by a reference,
``package.module:name``, and imported by the part that uses it. What the command line shows of a kind is in
`ports/command_line.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeGuard, runtime_checkable

from pydantic import BaseModel
from typing_extensions import TypeVar

from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement, Rating
from assayd.model.run import Limits, RunResult, RunSpec
from assayd.model.submission import Sample
from assayd.ports.command_line import STDIN, FileOptions

__all__ = [
    "Bounded",
    "Cap",
    "Extensible",
    "FileOptions",
    "Labelling",
    "Narrowing",
    "OnFail",
    "P",
    "P_contra",
    "Preparing",
    "Q",
    "Rates",
    "Recording",
    "Routes",
    "STDIN",
    "Stage",
    "Validator",
    "offers",
]

P = TypeVar("P", bound=BaseModel, default=Any)
"""A kind's payload as it is submitted."""
Q = TypeVar("Q", bound=BaseModel, default=P)
"""Its payload as `prepare` returns it; the same model, unless it has more fields (see `Preparing`)."""
P_contra = TypeVar("P_contra", bound=BaseModel, contravariant=True, default=Any)
T = TypeVar("T")


class OnFail(StrEnum):
    """What a static stage with errors does to the stages after it."""

    STOP = "stop"
    """They are skipped."""
    CONTINUE = "continue"
    """They run; only the container is out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Generic[P]):
    """One static stage: a pure function over payload and policy. Runs in an analysis worker."""

    name: str
    check: Callable[[P, ExecutionPolicy], Sequence[Finding]]
    on_fail: OnFail = OnFail.STOP


class Validator(Protocol[P, Q]):
    """A kind of submission, generic in its payload; bare, it stands for a kind of any payload."""

    @property
    def kind(self) -> str:
        """The kind's name in a submission."""
        ...

    @property
    def payload(self) -> type[P]:
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
    def stages(self) -> Sequence[Stage[P]]:
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

    def prepare(self, payload: P) -> Q:
        """Return the payload in the form that is checked, planned and judged, e.g. cleaned.

        May parse hostile text: it runs in an analysis worker, once, and what comes out is what `plan`
        and `judge` get. They parse nothing.
        """
        ...

    def plan(self, payload: P, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        """Decide what is to run; None when the static stages say it all.

        `payload` is a prepared one, except for samples that only tell which containers are wanted.
        """
        ...

    def judge(self, payload: Q, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Turn the raw record of the run into findings and cases. Pure; all guest bytes are hostile."""
        ...

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Describe, for a model that tries again, what stage failed, on what, and what is allowed.

        `findings` are those of every stage that failed, in order; `stage` is the first of them. What is
        allowed is what the effective policy says; without one, nothing is said of it.
        """
        ...


def offers(value: object, protocol: type[T]) -> TypeGuard[T]:
    """Return whether a value is what one of the protocols that may be left out asks for.

    As ``isinstance``, which looks for each member anew every time; for what lives as long as the process.
    """
    asked = id(value), protocol
    if asked not in _OFFERED:
        _OFFERED[asked] = value, isinstance(value, protocol)
    return _OFFERED[asked][1]


_OFFERED: dict[tuple[int, object], tuple[object, bool]] = {}
"""The answers, with what they are about: while that is held here, nothing else has its id."""


@runtime_checkable
class Rates(Protocol[P_contra]):
    """A kind that rates its submissions."""

    def rate(self, payload: P_contra, findings: Sequence[Finding]) -> Rating:
        """Rate a submission that was validated or failed, by all findings of its report.

        `payload` is as it was submitted: nothing of it is parsed here.
        """
        ...


@runtime_checkable
class Narrowing(Protocol[P_contra]):
    """A kind whose payload has a say in its policy."""

    def narrow(self, payload: P_contra, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Return the policy with what the payload asks for; it can only tighten.

        Raises: RequestError, when the payload and the policy do not go together.
        """
        ...


@runtime_checkable
class AnyImage(Protocol):
    """A kind whose `plan` asks for the image that the policy names, where it names one."""

    @property
    def any_image(self) -> bool:
        """Whether it does; always true."""
        ...


def image_of(validator: Validator, policy: ExecutionPolicy) -> str:
    """Return the image, without prefix, that a submission of a kind runs in under a policy."""
    return policy.image or validator.image


@runtime_checkable
class Preparing(Protocol):
    """A kind whose prepared payload has more fields than a submitted one."""

    @property
    def prepared(self) -> type[BaseModel]:
        """The model of what `prepare` returns."""
        ...


@runtime_checkable
class Extensible(Protocol):
    """A kind to whose rules and words an operator may add."""

    def use_tables(self, folders: Sequence[Path]) -> None:
        """Use what the files of these folders add, in this process. Raises: ConfigError."""
        ...


@runtime_checkable
class Labelling(Protocol[P_contra]):
    """A kind whose payloads say by which labels they want to be found."""

    def labels(self, payload: P_contra) -> Mapping[str, str]:
        """Return labels that the payload implies; those of the submission itself come first."""
        ...


class Cap(StrEnum):
    """How the size of a part of a payload is measured; the value names the limit in the settings."""

    SOURCE = "source_bytes"
    """A text, in bytes."""
    INPUTS = "inputs_bytes"
    """Any JSON, in bytes of its canonical form."""
    SAMPLE_PATHS = "sample_paths"
    """A list of sample paths, by its length."""
    STEPS = "steps"
    """A list of steps, by its length."""


@runtime_checkable
class Bounded(Protocol):
    """A kind that says which parts of its payload are bounded. Without it, every text in it is a source."""

    @property
    def bounded(self) -> Mapping[str, Cap]:
        """The cap of each part, by its dotted path; ``*`` stands for every entry (``steps.*.content``)."""
        ...


@runtime_checkable
class Recording(Protocol):
    """A kind that keeps tables of its own."""

    @property
    def recorder(self) -> str:
        """Refers to a `store.recorder.Recorder`."""
        ...


@runtime_checkable
class Routes(Protocol):
    """A kind with routes of its own in the API."""

    @property
    def routes(self) -> str:
        """Refers to a `fastapi.APIRouter`, whose paths begin with ``/v1/``."""
        ...
