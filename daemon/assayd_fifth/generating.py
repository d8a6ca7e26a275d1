"""Defines the context for writing a Fifth program: words, task type, libraries and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from assayd.findings.expected import CASES, describe_cases
from assayd.model.prompting import Example, PromptContext, Proposal
from assayd_fifth.payload import MOST_FILES, FifthCase, Label, Name, Path

TASK = "Write a program in Fifth, a Forth dialect."

EXAMPLE = Example(
    request="print the squares of 1 to 3",
    context={"execute": True},
    answer=Proposal(code=": squares ( n -- ) 1+ 1 ?do i i * . loop ;\n\n3 squares cr\n"),
    reason="A counted loop prints each square.",
)
PAGE = Example(
    request="a page with a heading, the number of items, and a link to items.html",
    context={"libraries": ["core"]},
    answer=Proposal(
        code="""\
require lib/core.fs

: amount ( n -- )
  <p> s" Items: " text n>str text </p> ;

: page ( title$ -- )
  2dup html-head html-body h1.
  3 amount
  s" All items" s" items.html" a.
  html-end ;

html>stdout s" Inventory" page
"""
    ),
    reason="page writes title, number and link; html>stdout prints them.",
)


class FifthContext(BaseModel):
    """The context of a program: its libraries, files, cases and task type, and whether it is run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task_type: Label | None = None
    model_source: Label | None = None
    libraries: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    files: Annotated[dict[Path, str], Field(max_length=MOST_FILES)] = {}
    execute: StrictBool = False
    cases: Annotated[tuple[FifthCase, ...], Field(max_length=CASES)] = ()


def around(context: FifthContext) -> list[PromptContext]:
    """Return the context that the generated code must fit."""
    files = [PromptContext(title=f"file {path}", text=text) for path, text in sorted(context.files.items())]
    return [*loaded(context.libraries), *files, *describe_fifth_cases(context.cases)]


def loaded(libraries: Sequence[str]) -> list[PromptContext]:
    """Return the libraries that a program can use without `require`."""
    return [PromptContext(title="loaded libraries", text=", ".join(libraries))] if libraries else []


def describe_fifth_cases(cases: Sequence[FifthCase]) -> list[PromptContext]:
    """Return a description of the cases for a prompt."""
    if not cases:
        return []
    told = describe_cases((case, case.stdin, case.expected) for case in cases)
    return [PromptContext(title="cases that must pass: standard input -> output", text=told)]
