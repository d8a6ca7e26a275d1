"""Documents about policy changes: trials of profiles, and suggested additions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from assayd.documents.base import BaseDocument, Timestamp

Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,64}=.{1,128}$")]
PROFILE_CHARS = 256 * 2**10
SNIPPET_CHARS = 16 * 2**10


class ReviewBody(BaseModel):
    """The attempts to review: finished attempts that the caller can see, beginning with the newest."""

    model_config = ConfigDict(extra="forbid", strict=True)

    since: Annotated[AwareDatetime, Field(strict=False)] | None = Field(
        None, description="Only attempts created at or after this time."
    )
    batch: str | None = Field(None, max_length=64, description="Only attempts of this batch, by its id.")
    labels: list[Label] = Field(
        [], max_length=8, description="Only attempts with these labels, as `key=value`."
    )
    kind: str | None = Field(None, max_length=64, description="Only attempts of this kind.")


class TryBody(ReviewBody):
    """The profile to try: an existing profile, or the text of a profile file."""

    policy: str = Field(max_length=64, description="Profile name; the name of the file, with `profile`.")
    profile: str | None = Field(
        None, max_length=PROFILE_CHARS, description="Text of a profile file, as TOML; for operators."
    )
    run: bool = Field(False, description="Run each submission again as a full attempt; not with `profile`.")


class SuggestBody(ReviewBody):
    """The profile to extend."""

    policy: str | None = Field(
        None, max_length=64, description="Profile to extend; null: that of the newest refused attempt."
    )


class ExplainBody(BaseModel):
    """A piece of code to check with a profile's static rules."""

    model_config = ConfigDict(extra="forbid", strict=True)

    policy: str = Field(max_length=64, description="Profile.")
    language: Literal["python", "bash", "sql"] = Field(description="Language of the code.")
    code: str = Field(min_length=1, max_length=SNIPPET_CHARS, description="The code, e.g. `import os`.")
    kind: str | None = Field(
        None, max_length=64, description="Kind that reads it; null: one that the profile is for."
    )


class ExplainedDocument(BaseDocument):
    """One rule's finding about the code."""

    rule: str = Field(description="Rule.")
    severity: Literal["error", "warning"] = Field(description="An error refuses the code.")
    message: str = Field(description="The fault.")
    suggestion: str | None = Field(description="The fix.")
    line: int | None = Field(description="Line of the code, from 1.")
    profile_key: str | None = Field(description="The profile's key that states the rule.")


class ExplanationDocument(BaseDocument):
    """A profile's decision about a piece of code, based on its static rules."""

    policy: str = Field(description="The profile.")
    kind: str = Field(description="The kind that read it.")
    allowed: bool = Field(description="False: a rule refuses it.")
    findings: list[ExplainedDocument] = Field(description="Findings on the code.")


class TrialExampleDocument(BaseDocument):
    """An attempt whose verdict would change."""

    attempt_id: str = Field(description="The attempt.")
    kind: str = Field(description="Its kind.")
    message: str = Field(description="Message of the finding.")
    line: int | None = Field(description="Line, from 1.")


class TrialChangeDocument(BaseDocument):
    """Verdicts that would change in the same direction because of one rule."""

    direction: Literal["would_fail", "would_pass"] = Field(description="The change.")
    rule: str = Field(description="The rule that fails them under the profile, or failed them before.")
    profile_key: str | None = Field(description="The profile's key that states the rule.")
    count: int = Field(description="Number of attempts.")
    examples: list[TrialExampleDocument] = Field(description="The newest of them, three at most.")


class TrialDocument(BaseDocument):
    """The verdicts that stored submissions would get under a profile."""

    policy: str = Field(description="The profile.")
    mode: Literal["static", "run"] = Field(description="Static stages only, or full validation.")
    total: int = Field(description="Number of attempts to try.")
    tried: int = Field(description="Number of attempts tried.")
    would_fail: int = Field(description="Validated attempts that would fail.")
    would_pass: int = Field(description="Attempts refused before they ran, which static stages would accept.")
    undecided: int = Field(description="Attempts that failed at run time; only another run can tell.")
    left_out: int = Field(description="Attempts that can't be tried under this profile.")
    complete: bool = Field(description="False if it ran out of time, or isn't finished.")
    changes: list[TrialChangeDocument] = Field(description="The changes by rule, the most frequent first.")


class TrialEventDocument(BaseDocument):
    """One event of a trial: `progress` or `finished`."""

    id: str = Field(description="Number of the event.")
    kind: Literal["progress", "finished"] = Field(description="Kind of the event.")
    at: Timestamp = Field(description="When.")
    body: TrialDocument = Field(description="The trial so far; `changes` only when finished.")


class AdditionDocument(BaseDocument):
    """A name that a profile would have to allow, with the attempts that need it."""

    key: str = Field(description="The profile's key.")
    name: str = Field(description="The name.")
    reason: str | None = Field(description="Why it isn't suggested; null for a suggested one.")
    count: int = Field(description="Number of attempts that needed it.")
    enough: int = Field(description="Number of attempts that needed nothing else of the profile.")
    first_at: Timestamp = Field(description="When the first of them was created.")
    last_at: Timestamp = Field(description="When the last of them was created.")


class SuggestionDocument(BaseDocument):
    """The smallest additions to a profile that would have let the attempts pass."""

    policy: str = Field(description="The profile that they are for.")
    seen: int = Field(description="Number of attempts that rules of a profile refused or reported.")
    helped: int = Field(description="Number of them that need only these additions.")
    toml: str = Field(description="A profile file with the additions.")
    additions: list[AdditionDocument] = Field(description="Suggested names, the most frequent first.")
    withheld: list[AdditionDocument] = Field(description="What isn't suggested, and why.")
