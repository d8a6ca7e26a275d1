"""Checks programs in Fifth, a Forth dialect, with declarative rules, and runs them in gforth if requested.

The static stages are `forbidden`, `required`, `structure` and `vocabulary`. All of them run, so that one
report contains all findings. If `execute` is set or there are cases, the program is also run in a sandbox.
Source: docs/kinds/fifth.md.

The request for writing a program includes the words of Fifth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from assayd.findings import expected as expected_results
from assayd.findings import runs as run_findings
from assayd.findings import units
from assayd.findings.expected import CASES, describe_cases
from assayd.findings.retry_context import build_retry_context, normalize_source
from assayd.kind import Cap, FailureAction, Kind, Stage
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import (
    Document,
    Example,
    PromptContext,
    PromptParts,
    PromptTopic,
    Proposal,
    RepairContext,
    SourcePart,
)
from assayd.model.report import Judgement, Rating
from assayd.model.run import Limits, Program, RunResult, RunSpec, Unit
from assayd_fifth import judging
from assayd_fifth.analysis import (
    Analysis,
    analyze_program,
    downgrade_errors,
    extract_bare_program,
    extract_program,
)
from assayd_fifth.judging import GFORTH, PROGRAM_FILE, iter_runs, judge_runs, list_guide_sections
from assayd_fifth.language import Language, add_language_folders, get_language
from assayd_fifth.payload import MOST_FILES, SAMPLES, FifthCase, FifthPayload, FilePath, Label, Name

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

_FOLDER = "assayd"
_PRELUDE_FILE = f"{_FOLDER}/prelude.fs"
_LIBRARIES_FILE = f"{_FOLDER}/libraries.fs"
_LIBRARY_HOME = "/usr/share/forth"
_WRITING_RULE = "Write words between spaces, and a stack comment in every definition."
_UNBALANCED_RULE = "structure.unbalanced"
"""The rule of `structure` whose certain findings are errors in every mode."""
MAX_LISTS_CHARS = 1800
"""Maximum number of characters of all lists together."""
_SECTION_BY_LIBRARY = {"html": "html_output", "sql": "sql_queries", "str": "buffer_system"}
"""The guide section about each library."""
_MENTIONED_BY = {
    "html": ("html", "page", "link", "tag", "heading", "form", "image", "paragraph", "css", "button", "menu"),
    "sql": ("sql", "database", "query", "queries", "select "),
    "str": ("string", "text", "comma", "split", "join", "csv", "html", "page"),
}
"""Words in requests that need each library."""
_FILE_WORDS = ("file", "read", "write")
READING = (
    "In a stack comment, a name that ends in $ is a string: two cells, address and length. Each tag has its "
    "end, such as `</p>` for `<p>`."
)


class FifthContext(BaseModel):
    """The context of a program: its libraries, files, cases and task type, and whether it is run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task_type: Label | None = None
    model_source: Label | None = None
    libraries: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    files: Annotated[dict[FilePath, str], Field(max_length=MOST_FILES)] = {}
    execute: StrictBool = False
    cases: Annotated[tuple[FifthCase, ...], Field(max_length=CASES)] = ()


def describe_request_context(context: FifthContext) -> list[PromptContext]:
    """Return the libraries, files and cases that the generated program must fit, for the prompt."""
    files = [PromptContext(title=f"file {path}", text=text) for path, text in sorted(context.files.items())]
    return [*describe_loaded_libraries(context.libraries), *files, *describe_fifth_cases(context.cases)]


def describe_loaded_libraries(libraries: Sequence[str]) -> list[PromptContext]:
    """Return the libraries that a program can use without `require`, as context for a prompt.

    The result is empty if no library is loaded.
    """
    return [PromptContext(title="loaded libraries", text=", ".join(libraries))] if libraries else []


def describe_fifth_cases(cases: Sequence[FifthCase]) -> list[PromptContext]:
    """Return the cases as context for a prompt, or an empty list without cases."""
    if not cases:
        return []
    told = describe_cases((case, case.stdin, case.expected) for case in cases)
    return [PromptContext(title="cases that must pass: standard input -> output", text=told)]


def list_words(about: Language, libraries: Iterable[str], sections: Iterable[str]) -> Iterator[str]:
    """Yield lists of words from the task's sections, the loaded libraries, and the boot file.

    The engine's own words aren't listed, because they are standard Forth, and the guide lists the missing
    standard words.
    """
    told, left = _select_libraries(about, libraries, sections), MAX_LISTS_CHARS
    for library in told:
        line = _list_library_words(about, library, left)
        left -= len(line)
        if line:
            yield line


def build_topics(
    about: Language, libraries: Iterable[str], sections: Iterable[str]
) -> tuple[PromptTopic, ...]:
    """Return the topics of the guide for strings, HTML, databases and files."""
    told = _select_libraries(about, libraries, sections)
    found = [
        PromptTopic(
            words=_MENTIONED_BY[library],
            rules=(
                *list_guide_sections(("dependencies", section), about),
                READING,
                _list_library_words(about, library, MAX_LISTS_CHARS),
            ),
            example=PAGE if library == "html" else None,
        )
        for library, section in _SECTION_BY_LIBRARY.items()
        if library not in told
    ]
    return (*found, PromptTopic(words=_FILE_WORDS, rules=list_guide_sections(("file_io",), about)))


def _select_libraries(about: Language, libraries: Iterable[str], sections: Iterable[str]) -> list[str]:
    named = [
        library
        for section in sections
        for library, about_it in _SECTION_BY_LIBRARY.items()
        if about_it == section
    ]
    loaded = [part for name in libraries for part in (*about.brings.get(name, ()), name)]
    return [one for one in dict.fromkeys((*named, *loaded, "boot")) if one in about.words and one != "engine"]


def _list_library_words(about: Language, library: str, most: int) -> str:
    """List a library's words by effect, largest groups first, up to a number of characters."""
    groups: dict[str, list[str]] = {}
    words = about.words[library]
    for name, word in sorted(words.items()):
        if not _is_derived_word(name, words):
            groups.setdefault(word.signature, []).append(name)
    shown, hidden = [], 0
    for effect, names in sorted(groups.items(), key=lambda group: -len(group[1])):
        line = f"{effect} {' '.join(names)}"
        if len(line) > most:
            hidden += len(names)
            continue
        most -= len(line)
        shown.append(line)
    more = f"; and {hidden} more" if hidden else ""
    return f"Words of {library}: {'; '.join(shown)}{more}." if shown else ""


def _is_derived_word(name: str, words: Collection[str]) -> bool:
    """Return whether a word is derived from another word: an end tag, or a variant that ends the line."""
    begins = {f"<{name[2:]}", f"<{name[2:].removesuffix('>')}"} if name.startswith("</") else set()
    return not begins.isdisjoint(words) or (name.endswith(">nl") and name.removesuffix("nl") in words)


class FifthKind(Kind[FifthPayload]):
    """The validator of the kind `fifth`: programs in Fifth, a Forth dialect."""

    name = "fifth"
    payload = FifthPayload
    bounded = MappingProxyType({"code": Cap.SOURCE, "files.*": Cap.SOURCE, "cases": Cap.INPUTS})
    default_policy = "fifth"
    image = "forth"
    language = "fifth"
    beginning = r": \S+ |\\ |require "
    samples = SAMPLES
    comparison = expected_results.OUTPUT_COMPARISON_RULES
    task = TASK
    example = EXAMPLE
    generation_context = FifthContext

    @cached_property
    def rules(self) -> Sequence[Rule]:
        """Return the rules in the data files and the rules for runs."""
        return (
            *get_language().rules.to_api_rules(),
            *run_findings.CAUSE_RULES,
            run_findings.LIMIT_RULE,
            units.NOT_EXECUTED_RULE,
            *expected_results.RULES,
        )

    @property
    def stages(self) -> Sequence[Stage[FifthPayload]]:
        """Return the static stages in order, all of which run."""
        return (
            Stage(name="forbidden", check=_check_forbidden, on_fail=FailureAction.CONTINUE),
            Stage(name="required", check=_check_required, on_fail=FailureAction.CONTINUE),
            Stage(name="structure", check=_check_structure, on_fail=FailureAction.CONTINUE),
            Stage(name="vocabulary", check=_check_vocabulary, on_fail=FailureAction.CONTINUE),
        )

    def use_tables(self, folders: Sequence[Path]) -> None:
        """Add an operator's rules and words. Raises: ConfigError ``fifth.tables``, if a table is invalid."""
        add_language_folders(folders)

    def prepare(self, payload: FifthPayload) -> FifthPayload:
        """Return the payload with the answer reduced to its program."""
        return payload.model_copy(update={"code": extract_program(payload.code)})

    def plan(self, payload: FifthPayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        """Plan one run in gforth for each case or, without cases, a single run if `execute` is set.

        Otherwise, return None.
        """
        arguments = {
            "argv": [GFORTH, _PRELUDE_FILE, _LIBRARIES_FILE, PROGRAM_FILE, "-e", "bye"],
            "env": {"FIFTH_HOME": _LIBRARY_HOME},
        }
        units = tuple(
            Unit(
                name=name,
                program=Program.EXEC,
                arguments=arguments,
                deadline_s=limits.unit_timeout_s,
                stdin=read.encode(),
            )
            for name, read, _ in iter_runs(payload)
        )
        if not units:
            return None
        return RunSpec(
            image=self.image,
            limits=limits,
            units=units,
            network=policy.network,
            imports=policy.imports,
            files=_build_run_files(payload),
            allow_exec=True,
        )

    def judge(self, payload: FifthPayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge each run by its exit, and the runs of cases also by their output."""
        return judge_runs(payload, result)

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Return the retry context: the findings, and reminders about the broken rules.

        The policy isn't used.
        """
        stressed = judging.build_feedback(findings, get_language())["add_emphasis"]
        reminders = [str(text) for text in stressed] if isinstance(stressed, list) else []
        ran = stage in self.runtime_stages
        headline = "The program failed when it ran:" if ran else "The program isn't valid Fifth:"
        return build_retry_context(findings, headline=headline, reminders=reminders)

    def get_code(self, answer: str) -> str:
        """Return the program in an answer, without the text around it."""
        return extract_bare_program(answer)

    def passage(self, payload: FifthPayload) -> SourcePart:
        """Return the program in the answer as the passage to repair."""
        text = extract_program(payload.code)
        return SourcePart(name="code", language=self.language, text=text, beginning=self.beginning)

    def surroundings(self, payload: FifthPayload) -> Sequence[PromptContext]:
        """Return the loaded libraries and the cases as context for a prompt."""
        return (
            *describe_loaded_libraries(payload.libraries),
            *describe_fifth_cases(payload.cases),
        )

    def context(
        self, payload: FifthPayload, report: Document, policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Return the findings that must be fixed, with advice from the feedback."""
        told = (_WRITING_RULE, *judging.describe_feedback(report.get("feedback"), get_language()))
        return replace(super().context(payload, report, policy), instructions=told)

    def normalize_text(self, payload: FifthPayload) -> bytes:
        """Return the program in lowercase without comments and layout, for comparisons."""
        return normalize_source(extract_program(payload.code).lower(), "\\ ")

    def brief(self, context: FifthContext, policy: ExecutionPolicy) -> PromptParts:
        """Return the instructions for a model that writes a program."""
        lens = judging.build_first_prompt_guide(
            context.model_source or "", context.task_type or "", get_language()
        )
        sections = judging.list_task_sections(context.task_type or "", get_language())
        words = list_words(get_language(), context.libraries, sections)
        rules = (_WRITING_RULE, *lens, *words, *self._compared(context))
        about = build_topics(get_language(), context.libraries, sections)
        return replace(super().brief(context, policy), rules=rules, topics=about)

    def around(self, context: FifthContext) -> Sequence[PromptContext]:
        """Return the libraries, files and cases that the request contains."""
        return describe_request_context(context)

    def rate(self, payload: FifthPayload, findings: Sequence[Finding]) -> Rating:
        """Return the confidence in a program that passed, and the advice for another try."""
        return Rating(
            confidence=judging.compute_confidence(findings),
            feedback=judging.build_feedback(
                findings,
                get_language(),
                model_source=payload.model_source or "",
                task_type=payload.task_type or "",
                ran=payload.execute or bool(payload.cases),
            ),
        )


def _analyze_payload(payload: FifthPayload) -> Analysis:
    return _analyze_cached(payload.code, payload.libraries, tuple(payload.files.items()))


@lru_cache(maxsize=1)
def _analyze_cached(code: str, libraries: tuple[str, ...], files: tuple[tuple[str, str], ...]) -> Analysis:
    """Analyze a program, and cache the result for all stages."""
    return analyze_program(code, libraries=libraries, files=dict(files))


def _get_stage_findings(payload: FifthPayload, stage: str) -> tuple[Finding, ...]:
    return _analyze_payload(payload).findings.get(stage, ())


def _check_forbidden(payload: FifthPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check for forbidden words: ``s" a" s" b" s+`` -> forbidden.concatenation."""
    return _get_stage_findings(payload, "forbidden")


def _check_required(payload: FifthPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check comments: ``: double 2 * ;`` -> required.stack_comment, an error only in strict mode."""
    found = _get_stage_findings(payload, "required")
    return found if payload.strict_mode else downgrade_errors(found)


def _check_structure(payload: FifthPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check structure: ``: f ( n -- ) if drop ;`` -> structure.unbalanced.

    The findings of other rules are warnings unless `strict_mode` is set.
    """
    found = _get_stage_findings(payload, "structure")
    if payload.strict_mode:
        return found
    return tuple(
        each for f in found for each in ((f,) if f.rule == _UNBALANCED_RULE else downgrade_errors((f,)))
    )


def _check_vocabulary(payload: FifthPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check words: ``string-split`` -> vocabulary.unknown_word."""
    return _get_stage_findings(payload, "vocabulary")


def _build_run_files(payload: FifthPayload) -> dict[str, bytes]:
    """Return the files of a run: the submitted files, the prelude, and a file that loads the libraries."""
    loads = "".join(f"require {name}.fs\n" for name in payload.libraries)
    ours = {
        _PRELUDE_FILE: get_language().prelude,
        _LIBRARIES_FILE: loads.encode(),
        PROGRAM_FILE: payload.code.encode(),
    }
    return {name: text.encode() for name, text in payload.files.items()} | ours


validator = FifthKind()
