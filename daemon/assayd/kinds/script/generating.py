"""The request for generating a script: a description, files, standard input and cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.briefing import describe_file_head
from assayd.findings.expected import CASES, describe_cases
from assayd.kinds.script.payload import ScriptCase
from assayd.model.prompting import Example, PromptContext, Proposal
from assayd.static.work_paths import FileContent, decode_content

_HEAD_BYTES = 2048
TASK = (
    "Write a script: Python that reads standard input and the given files, and prints the requested output."
)

EXAMPLE = Example(
    request="Write the input's words to words.txt, one a line, and print how many there are.",
    context={"stdin": "a b\nc\n", "collect": ["words.txt"]},
    answer=Proposal(
        code="""\
import sys

words = sys.stdin.read().split()
with open("words.txt", "w") as file:
    file.writelines(f"{word}\\n" for word in words)
print(len(words))
"""
    ),
    reason="Splits standard input at white space.",
)


class ScriptContext(BaseModel):
    """The context of a generated script: files, standard input, required outputs, and cases to pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Mapping[str, FileContent] = Field(default_factory=dict)
    stdin: str = ""
    collect: tuple[str, ...] = ()
    cases: Annotated[tuple[ScriptCase, ...], Field(max_length=CASES)] = ()


def describe_request_context(context: ScriptContext) -> list[PromptContext]:
    """Return the context that the generated script must fit."""
    found = []
    for path, given in sorted(context.files.items()):
        found.append(describe_file_head(path, decode_content(given), _HEAD_BYTES))
    if context.stdin:
        found.append(PromptContext(title="standard input", text=context.stdin))
    if context.collect:
        wanted = "\n".join(context.collect)
        found.append(PromptContext(title="files that must exist at the end", text=wanted))
    if context.cases:
        told = describe_cases((case, case.stdin, case.expected) for case in context.cases)
        found.append(PromptContext(title="cases that must pass: standard input -> output", text=told))
    return found
