"""The payload of a script (code, or a program with its files), and samples for the self-test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names
from assayd.model.submission import Sample
from assayd.static.work_paths import FileContent

_MAX_ARGUMENTS = 256

_MAX_ARGUMENT_BYTES = 65_536


def _check_argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains a NUL character")
    return text


class ScriptCase(ExpectedCase):
    """The expected output of the program when it reads `stdin` as its standard input."""

    stdin: str = ""
    expected: str


class ScriptPayload(BaseModel):
    """A program with its files and input: either `code`, or a program of the image in `argv`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str | None = Field(None, description="Python, or a model's answer with it.")
    files: Mapping[str, FileContent] = Field(
        default_factory=dict, description="Files of the start directory, by path."
    )
    argv: tuple[Annotated[str, AfterValidator(_check_argument)], ...] = Field(
        (),
        max_length=_MAX_ARGUMENTS,
        description="A program of the image and its arguments, instead of `code`.",
    )
    stdin: str = Field("", description="Standard input of the first run.")
    collect: tuple[str, ...] = Field((), description="Paths that must exist at the end.")
    cases: tuple[ScriptCase, ...] = Field(
        (),
        max_length=CASES,
        description="Runs with their own input and expected output; without `stdin`, the only ones.",
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[ScriptCase, ...]) -> tuple[ScriptCase, ...]:
        require_unique_names(cases)
        return cases

    @model_validator(mode="after")
    def _require_one_program(self) -> ScriptPayload:
        if (self.code is None) == (not self.argv):
            raise ValueError("pass either code, or argv (with files), not both")
        if self.argv and not self.argv[0]:
            raise ValueError("argv must start with the name of a program")
        if sum(len(argument.encode()) for argument in self.argv) > _MAX_ARGUMENT_BYTES:
            raise ValueError(f"argv has more than {_MAX_ARGUMENT_BYTES} bytes; use stdin or a file")
        return self


_WRITES = """
import csv
import sys

rows = [line.split() for line in sys.stdin]
with open("out.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
print(len(rows), "rows")
"""
_OF_OUR_PYTHON = ["python3.11", "main.py"]


def _build_sample(
    name: str, *rules: str, verdict: str = "failed", runs: bool = True, **payload: object
) -> Sample:
    return Sample(
        name=name,
        payload=payload,
        verdict=verdict,
        rules=frozenset(rules),
        needs_container=runs,
        own_image=payload.get("argv") == _OF_OUR_PYTHON,
    )


SAMPLES = (
    _build_sample("good", code=_WRITES, stdin="a 1\nb 2\n", collect=["out.csv"], verdict="validated"),
    _build_sample(
        "good_files",
        files={"main.py": "import helper\nhelper.greet()\n", "helper.py": "def greet(): print('hello')\n"},
        argv=_OF_OUR_PYTHON,
        verdict="validated",
    ),
    _build_sample("exits", code="import sys\nsys.exit(0)\n", verdict="validated"),
    _build_sample("syntax", "syntax.missing_colon", code="for n in range(3)\n    print(n)\n", runs=False),
    _build_sample("path", "path.invalid", code="print(1)\n", collect=["../out.csv"], runs=False),
    _build_sample("raised", "sandbox.raised", code="print(1 / 0)\n"),
    _build_sample("undefined", "sandbox.name_undefined", code="print(json.dumps({}))\n"),
    _build_sample("no_module", "sandbox.module_missing", code="import acme_reports\n"),
    _build_sample("status", "sandbox.exited_nonzero", code="raise SystemExit(3)\n"),
    _build_sample("endless", "sandbox.timeout", code="while True: pass\n"),
    _build_sample(
        "leaves",
        "sandbox.left_processes",
        code="import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.pause()\n",
    ),
    _build_sample("no_program", "sandbox.not_executed", argv=["no-such-program"]),
    _build_sample("not_written", "collect.missing", code="print('done')\n", collect=["out.csv"]),
)
