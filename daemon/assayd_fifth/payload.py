"""The payload of a Fifth submission with its options, and samples for the self-test."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, field_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names
from assayd.model.submission import Sample

MOST_FILES = 100

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]

FilePath = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=200
    ),
]

Label = Annotated[str, StringConstraints(max_length=200)]


class FifthCase(ExpectedCase):
    """A standard input, and the output that the program must print for this input."""

    stdin: str = ""
    expected: str


class FifthPayload(BaseModel):
    """A program in Fifth, with the files and libraries that the program loads."""

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str = Field(description="The program, or a model's answer with it in fenced blocks.")
    task_type: Label | None = Field(None, description="Purpose; only for the advice.")
    model_source: Label | None = Field(None, description="Model that wrote it; only for the advice.")
    strict_mode: StrictBool = Field(True, description="Report missing parts as errors, not as warnings.")
    libraries: tuple[Name, ...] = Field((), max_length=50, description="Libraries to load first.")
    files: dict[FilePath, str] = Field(
        {}, max_length=MOST_FILES, description="Files that it may load, by path."
    )
    execute: StrictBool = Field(False, description="Run the program once, without cases.")
    cases: tuple[FifthCase, ...] = Field(
        (), max_length=CASES, description="Separate runs with their input and expected output."
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[FifthCase, ...]) -> tuple[FifthCase, ...]:
        require_unique_names(cases)
        return cases


_GOOD_PROGRAM = (
    ': double ( n -- n*2 )\n  2 * ;\n\n: show ( n -- )\n  dup . ." doubled is " double . cr ;\n\n5 show\n'
)

_PAGE_PROGRAM = """require lib/core.fs

: row ( row$ -- )
  <tr> 2dup 0 sql-field td. 2drop 1 sql-field td. 2drop </tr> ;

: page ( title$ -- )
  2dup html-head html-body h1.
  s" app.db" s" SELECT name, kind FROM things" ['] row sql-each
  html-end ;

html>stdout s" Things" page
"""


def _build_sample(
    name: str, code: str, *rules: str, verdict: str = "failed", runs: bool = False, **others: object
) -> Sample:
    payload = {"code": code, "execute": runs, **others}
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


SAMPLES = (
    _build_sample("good", _GOOD_PROGRAM, verdict="validated"),
    _build_sample("page", _PAGE_PROGRAM, verdict="validated"),
    _build_sample(
        "answer", f"Here:\n```forth\n{_GOOD_PROGRAM}```\n", "forbidden.answer_blocks", verdict="validated"
    ),
    _build_sample(
        "constant", ': db s" app.db" ;\ndb type\n', "required.stack_comment_constant", verdict="validated"
    ),
    _build_sample("loop", ": f ( -- ) 3 0 do i loop ;\n", "structure.loop", verdict="validated"),
    _build_sample("branches", ": f ( n -- n ) dup if 1 then ;\n", "structure.branches"),
    _build_sample("control", ": f ( n -- ) if drop ;\n", "structure.unbalanced", strict_mode=False),
    _build_sample("lenient", ": f 2 * ;\n", "required.stack_comment", verdict="validated", strict_mode=False),
    _build_sample("concatenation", ': f ( -- addr u ) s" a" s" b" s+ ;\n', "forbidden.concatenation"),
    _build_sample("include", "include str.fs\n", "forbidden.include"),
    _build_sample(
        "raw", ": f ( row$ -- ) 0 sql-field raw 2drop ;\n", "forbidden.raw_user_data", libraries=["core"]
    ),
    _build_sample("comment", ": double 2 * ;\n", "required.stack_comment"),
    _build_sample("unknown", ": f ( addr u -- ) string-split ;\n", "vocabulary.unknown_word"),
    _build_sample("library", ': f ( -- ) s" a" text ;\n', "vocabulary.library_not_loaded"),
    _build_sample("gforth", ": f ( a b -- flag ) <= ;\n", "vocabulary.gforth_word"),
    _build_sample("runs", _GOOD_PROGRAM, verdict="validated", runs=True),
    _build_sample(
        "unavailable", "require lib/str.fs\n", "fifth.library_unavailable", verdict="validated", runs=True
    ),
    _build_sample("division", "7 0 / .\n", "fifth.division_by_zero", runs=True),
    _build_sample(
        "case",
        _GOOD_PROGRAM,
        verdict="validated",
        runs=True,
        cases=[{"name": "five", "expected": "5 doubled is 10 \n"}],
    ),
    _build_sample(
        "case_differs",
        _GOOD_PROGRAM,
        "case.differs",
        runs=True,
        cases=[{"name": "six", "expected": "6 doubled is 12", "compare": "tokens"}],
    ),
    _build_sample("endless", ": f ( -- ) begin again ;\nf\n", "sandbox.timeout", runs=True),
)
