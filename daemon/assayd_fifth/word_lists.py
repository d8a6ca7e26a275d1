"""Lists the words of Fifth for a prompt by stack effect, starting with the task's words. Pure.

If a common library isn't loaded, its words form a topic together with the library's section of the guide;
only requests that mention the topic need these words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from assayd.model.prompting import PromptTopic
from assayd_fifth.advice import guide_sections
from assayd_fifth.generating import PAGE
from assayd_fifth.language import Language

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


def topics(about: Language, libraries: Iterable[str], sections: Iterable[str]) -> tuple[PromptTopic, ...]:
    """Return the topics of the guide for strings, HTML, databases and files."""
    told = _select_libraries(about, libraries, sections)
    found = [
        PromptTopic(
            words=_MENTIONED_BY[library],
            rules=(
                *guide_sections(("dependencies", section), about),
                READING,
                _list_library_words(about, library, CHARS),
            ),
            example=PAGE if library == "html" else None,
        )
        for library, section in _SECTIONS.items()
        if library not in told
    ]
    return (*found, PromptTopic(words=_FILES, rules=guide_sections(("file_io",), about)))


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
