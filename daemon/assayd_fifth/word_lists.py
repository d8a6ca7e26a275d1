"""Lists the words of Fifth for a prompt by stack effect: first for the task, within a budget. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from assayd_fifth.language import Language

CHARS = 3600
"""Of all lists together."""
_FIRST = {"html_output": "html", "sql_queries": "sql", "buffer_system": "str"}
"""The library that a section of the guide is about."""
_ALWAYS = ("engine", "boot")
_USUAL = ("str", "html", "sql")
READING = (
    "In a stack comment, a name that ends in $ is a string: two cells, address and length. The lists below "
    "group words by their stack effect. Each tag in them has its end, such as `</p>` for `<p>`."
)


def told_words(about: Language, libraries: Iterable[str], sections: Iterable[str]) -> Iterator[str]:
    """Return lists of words: for the task's sections, of loaded libraries, of the engine, and the usual."""
    named = [_FIRST[section] for section in sections if section in _FIRST]
    loaded = [part for name in libraries for part in (*about.brings.get(name, ()), name)]
    left = CHARS
    for library in dict.fromkeys((*named, *loaded, *_ALWAYS, *_USUAL)):
        if library not in about.words:
            continue
        groups: dict[str, list[str]] = {}
        words = about.words[library]
        for name, word in sorted(words.items()):
            if _follows(name, words):
                continue
            groups.setdefault(word.signature, []).append(name)
        shown, hidden = [], 0
        for effect, names in sorted(groups.items(), key=lambda group: -len(group[1])):
            line = f"{effect} {' '.join(names)}"
            if len(line) > left:
                hidden += len(names)
                continue
            left -= len(line)
            shown.append(line)
        more = f"; and {hidden} more" if hidden else ""
        if shown:
            yield f"Words of {library}: {'; '.join(shown)}{more}."


def _follows(name: str, words: Collection[str]) -> bool:
    """Return whether a word follows from another: the end of a tag, or a word that also ends the line."""
    begins = {f"<{name[2:]}", f"<{name[2:].removesuffix('>')}"} if name.startswith("</") else set()
    return not begins.isdisjoint(words) or (name.endswith(">nl") and name.removesuffix("nl") in words)
