"""The request for writing a script: words, files, standard input, cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.briefing import code_example, file_head
from assayd.findings.expected import CASES, cases_told
from assayd.kinds.script.payload import ScriptCase
from assayd.kinds.script.samples import SAMPLES
from assayd.model.prompting import Surrounding
from assayd.static.work_files import FileContent, content_of

_HEAD_BYTES = 2048
TASK = (
    "Write a script: one Python file that reads standard input and the submitted files, prints the requested "
    "output, and ends by itself with exit code 0."
)

EXAMPLE = code_example(
    SAMPLES[0],
    request="Write the words of each input line as a row of out.csv, and print the number of rows.",
    reason="Splits each line of standard input, writes the rows with the csv module and prints their count.",
)


class ScriptContext(BaseModel):
    """Its files, its standard input, its required output files, and the cases to pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Mapping[str, FileContent] = Field(default_factory=dict)
    stdin: str = ""
    collect: tuple[str, ...] = ()
    cases: Annotated[tuple[ScriptCase, ...], Field(max_length=CASES)] = ()


def around(context: ScriptContext) -> list[Surrounding]:
    """Return the context that the code must fit."""
    found = []
    for path, given in sorted(context.files.items()):
        found.append(file_head(path, content_of(given), _HEAD_BYTES))
    if context.stdin:
        found.append(Surrounding(title="standard input", text=context.stdin))
    if context.collect:
        wanted = "\n".join(context.collect)
        found.append(Surrounding(title="files that must exist at the end", text=wanted))
    if context.cases:
        told = cases_told((case, case.stdin, case.expected) for case in context.cases)
        found.append(Surrounding(title="cases that have to pass: standard input -> output", text=told))
    return found
