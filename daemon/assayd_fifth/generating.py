"""Defines the context for writing a Fifth program, and lists the words of Fifth for a prompt.

If a common library isn't loaded, its words form a topic together with the library's section of the guide;
only requests that mention the topic need these words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from assayd.findings.expected import CASES, describe_cases
from assayd.model.prompting import Example, PromptContext, PromptTopic, Proposal
from assayd_fifth.judging import list_guide_sections
from assayd_fifth.language import Language
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


def describe_request_context(context: FifthContext) -> list[PromptContext]:
    """Return the libraries, files and cases that the generated program must fit, for the prompt."""
    files = [PromptContext(title=f"file {path}", text=text) for path, text in sorted(context.files.items())]
    return [*describe_loaded_libraries(context.libraries), *files, *describe_fifth_cases(context.cases)]


def describe_loaded_libraries(libraries: Sequence[str]) -> list[PromptContext]:
    """Return the libraries that a program can use without `require`."""
    return [PromptContext(title="loaded libraries", text=", ".join(libraries))] if libraries else []


def describe_fifth_cases(cases: Sequence[FifthCase]) -> list[PromptContext]:
    """Return the cases as context for a prompt, or an empty list without cases."""
    if not cases:
        return []
    told = describe_cases((case, case.stdin, case.expected) for case in cases)
    return [PromptContext(title="cases that must pass: standard input -> output", text=told)]


CHARS = 1800
"""Maximum number of characters of all lists together."""
_SECTIONS = {"html": "html_output", "sql": "sql_queries", "str": "buffer_system"}
"""The guide section about each library."""
_MENTIONED_BY = {
    "html": ("html", "page", "link", "tag", "heading", "form", "image", "paragraph", "css", "button", "menu"),
    "sql": ("sql", "database", "query", "queries", "select "),
    "str": ("string", "text", "comma", "split", "join", "csv", "html", "page"),
}
"""Words in requests that need each library."""
_FILES = ("file", "read", "write")
READING = (
    "In a stack comment, a name that ends in $ is a string: two cells, address and length. Each tag has its "
    "end, such as `</p>` for `<p>`."
)


def list_words(about: Language, libraries: Iterable[str], sections: Iterable[str]) -> Iterator[str]:
    """Yield lists of words from the task's sections, the loaded libraries, and the boot file.

    The engine's own words aren't listed, because they are standard Forth, and the guide lists the missing
    standard words.
    """
    told, left = _select_libraries(about, libraries, sections), CHARS
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
                _list_library_words(about, library, CHARS),
            ),
            example=PAGE if library == "html" else None,
        )
        for library, section in _SECTIONS.items()
        if library not in told
    ]
    return (*found, PromptTopic(words=_FILES, rules=list_guide_sections(("file_io",), about)))


def _select_libraries(about: Language, libraries: Iterable[str], sections: Iterable[str]) -> list[str]:
    named = [
        library for section in sections for library, about_it in _SECTIONS.items() if about_it == section
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
