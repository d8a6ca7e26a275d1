"""Walks the files of a folder in a fixed order, and groups paths and results by the shape of the paths.

The walk doesn't follow symbolic links. In each folder, the names are sorted by their bytes, so that a walk
can continue after a given path. Paths with problems are reported. The memory contains only the names in the
folders from the root to the current folder, not all names in the tree.

Two paths have the same shape if they differ only in their words and numbers. The memory for the counts is
bounded, regardless of the number of paths.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assayd.model.text_limits import SAMPLE_PATH_CHARS
from assayd_client.answers import Document

Parts = tuple[bytes, ...]

RUNS = re.compile(r"[0-9]+|[^\W\d_]+")
MAX_NUMBER_DIGITS = 3
"""Maximum number of digits of numbers that have the same shape; a year has another shape than a counter."""
MOST_SHAPES = 2_000
"""Maximum number of shapes to count separately; other paths are counted as `OTHERS`."""
MAX_FIELDS = 1_000
MAX_KEPT_REASONS = 10
EXAMPLES = 3
"""Maximum number of unmatched paths to keep as examples for each shape."""
OTHERS = "(other shapes)"
_MAX_REASON_TEXT_CHARS = 200


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file, or a path that can't be read or submitted, together with an error code and a message."""

    path: str
    code: str | None = None
    message: str = ""


@dataclass(slots=True)
class TreeWalk:
    """A walk of a folder's files. `links` is the number of symbolic links that were skipped."""

    tree: Path
    links: int = 0

    def files(self, after: str | None = None) -> Iterator[FoundFile]:
        """Yield every file in order, or only the files that follow the path `after` of an earlier walk."""
        yield from self._walk_below(str(self.tree), None if after is None else self._split_path(after))

    def _split_path(self, path: str) -> Parts:
        inner = os.fsencode(path).removeprefix(os.fsencode(str(self.tree))).lstrip(b"/")
        return tuple(inner.split(b"/"))

    def _walk_below(self, top: str, after: Parts | None) -> Iterator[FoundFile]:
        waiting: list[tuple[str, Parts | None, bool]] = [(top, after, True)]
        while waiting:
            path, rest, is_folder = waiting.pop()
            if not is_folder:
                yield _check_path(path)
                continue
            try:
                inner = self._list_sorted_entries(path, rest)
            except OSError as error:
                yield FoundFile(path, "folder.unreadable", error.strerror or "unreadable")
                continue
            waiting += reversed(inner)

    def _list_sorted_entries(self, folder: str, after: Parts | None) -> list[tuple[str, Parts | None, bool]]:
        """Return the entries of a folder in order, without those that an earlier walk has covered."""
        found = []
        with os.scandir(folder) as entries:
            named = sorted((os.fsencode(entry.name), entry) for entry in entries)
        for name, entry in named:
            if entry.is_symlink():
                self.links += 1
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            rest = None
            if after:
                if name < after[0] or (name == after[0] and not (is_folder and len(after) > 1)):
                    continue
                rest = after[1:] if name == after[0] else None
            found.append((entry.path, rest, is_folder))
        return found


def _check_path(path: str) -> FoundFile:
    if any("\ud800" <= character <= "\udfff" for character in path):
        return FoundFile(path, "path.not_utf8", "the name isn't valid UTF-8")
    if len(path) > SAMPLE_PATH_CHARS:
        message = f"the path has {len(path)} characters; the limit is {SAMPLE_PATH_CHARS}"
        return FoundFile(path, "path.too_long", message)
    return FoundFile(path)


def group_by_shape(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the paths grouped by shape, in their original order."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(compute_shape(path), []).append(path)
    return groups


def compute_shape(path: str) -> str:
    """Return the shape of a path, with placeholders for words and numbers and the original suffix.

    ``/data/CLIENT-7/2024/report.csv`` has the shape ``/a/A-9/9999/a.csv``.
    """
    stem, dot, suffix = path.rpartition(".")
    if not stem or not suffix.isalnum():
        stem, dot, suffix = path, "", ""
    return RUNS.sub(_choose_placeholder, stem) + dot + suffix


def _choose_placeholder(found: re.Match[str]) -> str:
    run = found.group()
    if run[0].isdecimal():
        return "9" if len(run) <= MAX_NUMBER_DIGITS else "9" * len(run)
    if run.isupper():
        return "A"
    return "a" if run.islower() else "Aa"


@dataclass(slots=True)
class ShapeCount:
    """The counts for one shape: all paths, matched paths, and failed paths with their errors."""

    paths: int = 0
    matched: int = 0
    failed: int = 0
    example: str = ""
    reasons: Counter[str] = field(default_factory=Counter)
    unmatched: list[str] = field(default_factory=list)


class ResultTally:
    """A count of results by shape and field.

    A path is matched if its result has at least one field.
    """

    def __init__(self) -> None:
        self.paths = self.matched = self.failed = 0
        self.shapes: dict[str, ShapeCount] = {}
        self.fields: Counter[str] = Counter()

    def add(
        self,
        path: str,
        result: Mapping[str, object] | None,
        reason: str | None = None,
        *,
        submitted: bool = True,
    ) -> None:
        """Count one path with its result, or with the reason why there isn't a result.

        Only submitted paths are used as examples, because a repair submits the examples.
        """
        matched, failed = bool(result), result is None
        one = self._get_shape_count(path)
        for count in (self, one):
            count.paths += 1
            count.matched += matched
            count.failed += failed
        if not matched and submitted and len(one.unmatched) < EXAMPLES:
            one.unmatched.append(path)
        if reason is not None:
            known = reason[:_MAX_REASON_TEXT_CHARS]
            one.reasons[known if known in one.reasons or len(one.reasons) < MAX_KEPT_REASONS else "…"] += 1
        for name, value in (result or {}).items():
            if value not in {None, ""} if isinstance(value, str | None) else value not in ([], {}):
                self._count_field(name)

    def _count_field(self, name: str) -> None:
        if name in self.fields or len(self.fields) < MAX_FIELDS:
            self.fields[name] += 1

    def _get_shape_count(self, path: str) -> ShapeCount:
        shape = compute_shape(path)
        if shape not in self.shapes and len(self.shapes) >= MOST_SHAPES:
            shape = OTHERS
        one = self.shapes.setdefault(shape, ShapeCount())
        one.example = one.example or path
        return one

    def document(self) -> Document:
        """Return all counts, with the shapes that have the most unmatched paths first."""
        return {
            "paths": self.paths,
            "matched": self.matched,
            "empty": self.paths - self.matched - self.failed,
            "failed": self.failed,
            "shapes": [
                {
                    "shape": shape,
                    "paths": one.paths,
                    "matched": one.matched,
                    "failed": one.failed,
                    "example": one.example,
                    "unmatched": list(one.unmatched),
                    "reasons": dict(one.reasons.most_common()),
                }
                for shape, one in sorted(self.shapes.items(), key=lambda item: _build_unmatched_key(*item))
            ],
        }


def compare_tallies(before: ResultTally, now: ResultTally) -> Document:
    """Compare the extraction results for a tree now with the results at approval.

    The value `drift` is the maximum of two kinds of shares: the share of all paths that are unmatched and
    whose shape had no unmatched path at approval, and, for each field, the decrease in the share of matched
    paths that have the field.
    """
    document = now.document()
    known = {shape for shape, one in before.shapes.items() if one.matched < one.paths}
    unmatched = [one for one in document["shapes"] if one["matched"] < one["paths"]]
    lost = [one for one in unmatched if one["shape"] not in known]
    fields = sorted(_iter_lost_fields(before, now), key=lambda one: one["now"] - one["before"])
    share = _divide_or_zero(sum(one["paths"] - one["matched"] for one in lost), now.paths)
    return {
        **{name: document[name] for name in ("paths", "matched", "empty", "failed")},
        "approved_paths": before.paths,
        "approved_matched": before.matched,
        "new_shapes": [one for one in document["shapes"] if one["shape"] not in before.shapes],
        "lost_shapes": lost,
        "lost_share": share,
        "emptied_fields": fields,
        "drift": max(share, *(round(one["before"] - one["now"], 4) for one in fields), 0.0),
    }


def _iter_lost_fields(before: ResultTally, now: ResultTally) -> Iterator[dict[str, Any]]:
    """Yield the fields that occur in a smaller share of matched paths than at approval."""
    for name, number in before.fields.items():
        then, today = _divide_or_zero(number, before.matched), _divide_or_zero(now.fields[name], now.matched)
        if now.matched and today < then:
            yield {"field": name, "before": then, "now": today}


def _divide_or_zero(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _build_unmatched_key(shape: str, one: ShapeCount) -> tuple[int, str]:
    return one.matched - one.paths, shape
