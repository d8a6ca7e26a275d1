"""Writes what two submissions differ in as a unified diff, text by text.

    --- payload.code
    +++ payload.code
    @@ -1,2 +1,2 @@
    -def extract(path)
    +def extract(path):
         return {}

The texts are strangers'. Lines are compared one by one only where few of them differ, since that takes long
for some; else all that lies between the first difference and the last counts as changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

COMPARED_LINES = 200
"""Of so many changed lines it is looked for those that stayed."""
CONTEXT = 3
MAX_CHARS = 64 * 2**10

Texts = Mapping[str, str]


def submission_diff(before: object, after: object) -> str:
    """Return the difference of two payloads, cut to a size; empty when all texts are the same."""
    old, new = dict(_texts("payload", before)), dict(_texts("payload", after))
    lines = [line for name in sorted({*old, *new}) for line in _diff(name, old.get(name), new.get(name))]
    whole = "".join(f"{line}\n" for line in lines)
    return whole if len(whole) <= MAX_CHARS else f"{whole[:MAX_CHARS]}\n… and more\n"


def _texts(name: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield name, value
        case dict():
            for key, part in value.items():
                yield from _texts(f"{name}.{key}", part)
        case list():
            for number, part in enumerate(value):
                yield from _texts(f"{name}.{number}", part)
        case _:
            return


def _diff(name: str, old: str | None, new: str | None) -> Iterator[str]:
    """Return the one hunk that a text's changes are."""
    if old == new:
        return
    before, after = (old or "").splitlines(), (new or "").splitlines()
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    start, end = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    gone, come = before[head : len(before) - tail], after[head : len(after) - tail]
    yield f"--- {name}"
    yield f"+++ {name}"
    yield f"@@ -{_span(start, len(before) - end)} +{_span(start, len(after) - end)} @@"
    yield from (f" {line}" for line in before[start:head])
    yield from _changed(gone, come)
    yield from (f" {line}" for line in before[len(before) - tail : len(before) - end])


def _span(start: int, end: int) -> str:
    return f"{start + (end > start)},{end - start}"


def _changed(gone: Sequence[str], come: Sequence[str]) -> Iterator[str]:
    if max(len(gone), len(come)) > COMPARED_LINES:
        yield from (f"-{line}" for line in gone)
        yield from (f"+{line}" for line in come)
        return
    for tag, a, b, c, d in SequenceMatcher(None, gone, come, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f" {line}" for line in gone[a:b])
        else:
            yield from (f"-{line}" for line in gone[a:b])
            yield from (f"+{line}" for line in come[c:d])
