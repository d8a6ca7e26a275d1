"""Collects the sample paths that a command line specifies: single paths, lists, or files of a folder.

This module decides which paths represent a large set. The number of paths is limited by the daemon.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from zlib import crc32

import typer

from assayd.errors import RequestError
from assayd_client.applying import TreeWalk
from assayd_client.cli.terminal import format_count, plain
from assayd_client.shapes import compute_shape, group_by_shape

PER_SHAPE = 3
"""Paths of one shape that are chosen from a folder."""
MOST_CHOSEN = 50
"""Paths that are chosen from a folder, however many shapes it has."""
MAX_BYTES = 16 * 2**20
"""Size of a file that lists paths."""

SamplePath = Annotated[
    list[str] | None, typer.Option(metavar="P", help="Try the code on this path (repeatable).")
]
SamplePaths = Annotated[
    Path | None,
    typer.Option(
        "--sample-paths",
        metavar="FILE",
        help="Try the code on each path in this file, one per line; - is standard input.",
    ),
]
SampleTree = Annotated[
    Path | None,
    typer.Option(
        "--sample-tree", metavar="DIR", help="Try the code on some paths of each shape in this folder."
    ),
]


@dataclass(slots=True)
class ShapeGroup:
    """The number of paths of one shape, and the paths that represent them."""

    count: int
    chosen: list[str]


def collect_sample_paths(
    named: Sequence[str] | None, listed: Path | None, tree: Path | None, files: Sequence[Path] = ()
) -> tuple[str, ...]:
    """Return the distinct paths from three options.

    A summary of the folder is printed on standard error.

    Raises: RequestError ``usage`` or ``file.unreadable``.
    """
    if listed == Path("-") and Path("-") in files:
        raise RequestError(
            "usage", "both --sample-paths - and the file - read standard input; name a file for one of them"
        )
    paths = [*(named or ()), *(() if listed is None else read_lines(listed))]
    if tree is not None:
        groups = group_files_by_shape(tree)
        chosen = list(select_sample_paths(groups))
        _print_selection(tree, groups, chosen)
        paths += chosen
    return tuple(dict.fromkeys(paths))


def read_lines(file: Path) -> list[str]:
    """Return the non-empty lines of a file. Raises: RequestError ``file.unreadable``."""
    source = "standard input" if file == Path("-") else str(file)
    try:
        if file == Path("-"):
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(MAX_BYTES + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise RequestError("file.unreadable", f"--sample-paths: {source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RequestError("file.unreadable", f"--sample-paths: {source} isn't valid UTF-8") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    paths = [line for line in lines if line]
    if len(content) > MAX_BYTES or not paths:
        fault = "larger than 16 MiB" if paths else "empty"
        raise RequestError("usage", f"--sample-paths: {source} is {fault}; write one path per line")
    return paths


def group_files_by_shape(tree: Path) -> dict[str, ShapeGroup]:
    """Group the files below a folder by shape, the largest group first, ignoring symbolic links.

    Raises: RequestError ``usage``, if the folder has no file whose path can be submitted.
    """
    if not tree.is_dir():
        fault = "not a folder" if tree.exists() else "no such folder"
        raise RequestError("usage", f"--sample-tree: {tree}: {fault}")
    groups: dict[str, ShapeGroup] = {}
    for path in (found.path for found in TreeWalk(tree).files() if found.code is None):
        group = groups.setdefault(compute_shape(path), ShapeGroup(count=0, chosen=[]))
        group.count += 1
        # The smallest checksums: an even sample of any number of paths, and the same at the next call.
        group.chosen = sorted([*group.chosen, path], key=_build_checksum_key)[:PER_SHAPE]
    if not groups:
        raise RequestError("usage", f"--sample-tree: {tree} contains no readable files; name another folder")
    return dict(sorted(groups.items(), key=lambda item: (-item[1].count, item[0])))


def select_sample_paths(groups: Mapping[str, ShapeGroup]) -> Iterator[str]:
    """Yield at most `MOST_CHOSEN` paths.

    Every shape is represented by one path before any shape is represented by a second path.
    """
    rounds = (
        group.chosen[number]
        for number in range(PER_SHAPE)
        for group in groups.values()
        if number < len(group.chosen)
    )
    return (path for _, path in zip(range(MOST_CHOSEN), rounds, strict=False))


def _build_checksum_key(path: str) -> tuple[int, str]:
    return crc32(path.encode()), path


def _print_selection(tree: Path, groups: Mapping[str, ShapeGroup], chosen: Sequence[str]) -> None:
    total = sum(group.count for group in groups.values())
    shapes = len(group_by_shape(chosen))
    of = f" of {len(groups)}" if shapes < len(groups) else ""
    print(
        f"assay: {plain(str(tree))} has {format_count(total, 'file')} "
        f"of {format_count(len(groups), 'shape')}; "
        f"chosen: {format_count(len(chosen), 'path')} of {shapes}{of}",
        file=sys.stderr,
    )
