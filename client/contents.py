"""Chooses the files of the client's wheel: `assayd_client`, and the daemon's modules that it imports.

Run as a script, it prints them with their lines. Imports are followed wherever they are, also within
functions, unless they are for a type checker, or lead to a part that only the daemon has or that has its own
wheel. A command that needs such a part says that it needs the daemon or that wheel. The client's wheel also
contains the modules of the core that the parts with wheels import.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CLIENT = Path(__file__).resolve().parent
SOURCES = CLIENT.parent / "daemon"
_CORE = "egress engines imaging kind package_data policies sandbox settings wiring"
_IMAGES = ("assayd_client.cli.images", "assayd_client.cli.images")
DAEMON_ONLY = (*(f"assayd.{name}" for name in _CORE.split()), *_IMAGES, "assayd_compat")
"""What no wheel of the client holds, whatever imports it: images are built only on a daemon's host."""


class ClientContents(BuildHookInterface[Any]):
    """Tells hatchling which files the wheel holds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to what is built."""
        for path in contents():
            build_data["force_include"][str(path)] = path.relative_to(SOURCES).as_posix()


def find_parts() -> list[Path]:
    """Return the folders and files in the wheels of the optional parts, sorted."""
    return sorted(
        (project.parent / source).resolve()
        for project in CLIENT.glob("*/pyproject.toml")
        for source in _read_force_include(project)
    )


def _read_force_include(project: Path) -> list[str]:
    wheel = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    return list(wheel["force-include"])


def contents() -> list[Path]:
    """Return the files of the wheel, sorted."""
    parts = [file for part in find_parts() for file in ([part] if part.is_file() else part.rglob("*.py"))]
    excluded = (*DAEMON_ONLY, *{path.relative_to(SOURCES).parts[0] for path in parts})
    waiting = list(_roots(excluded))
    waiting += [file for part in parts for name in _imports(part) for file in _files(name, excluded)]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [file for name in _imports(path) for file in _files(name, excluded)]
    return sorted(found)


def _roots(excluded: tuple[str, ...]) -> Iterator[Path]:
    client = SOURCES / "assayd_client"
    for path in client.rglob("*.py"):
        yield from _files(_name(path), excluded)
    # Typed answers are imported when they are first used, by name.
    for name in re.findall(r"from (assayd\.documents\.\w+) import", (client / "documents.py").read_text()):
        yield from _files(name, excluded)
    for shown in SOURCES.rglob("command_line.py"):  # of each kind; it refers to its other parts by name
        yield from _files(_name(shown), excluded)
        for name in re.findall(r'"(assayd[\w.]+):\w+"', shown.read_text()):
            yield from _files(name, excluded)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCES).with_suffix("").parts)


def _files(name: str, excluded: tuple[str, ...]) -> Iterator[Path]:
    """Return the file of a module, and those of the packages that it is in; none for other things."""
    if any(name == part or name.startswith(f"{part}.") for part in excluded):
        return
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        place = SOURCES.joinpath(*parts[:length])
        yield from (path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file())


def _imports(path: Path) -> Iterator[str]:
    """Return the modules of ours that a file imports, and names that may be modules."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("assayd"):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("assayd"))
        waiting += ast.iter_child_nodes(node)


if __name__ == "__main__":
    counted = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in contents()}
    for path, lines in counted.items():
        print(f"{lines:6}  {path.relative_to(SOURCES)}")
    print(f"{sum(counted.values()):6}  in all")
