"""Reads the broken submissions: what is in the manifest, and the files below `cases/`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
FILES = HERE / "cases"
HARD = HERE / "hard.toml"
STEPS = frozenset({"bash", "sql"})

Document = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One broken submission. `cheat`, if any, is validated and wrong all the same.

    `given` is the payload beside the text; `held_out` replaces parts of it when a repair is looked at again.
    """

    kind: str
    name: str
    category: str
    wrong: str
    broken: str
    right: str
    cheat: str | None
    given: Mapping[str, object] = field(default_factory=dict)
    held_out: Mapping[str, object] = field(default_factory=dict)

    def submission(self, text: str) -> Document:
        """Give the submission with this text, as a client sends it."""
        kind = "pipeline" if self.kind in STEPS else self.kind
        return {"kind": kind, "payload": merged(self._placed(text), self.given)}

    def _placed(self, text: str) -> Document:
        if self.kind in STEPS:
            return {"steps": [{"name": "step", "type": self.kind, "content": text}]}
        return {"files": {"adapter.py": text}} if self.kind == "module" else {"code": text}


def load() -> list[Case]:
    """Read all of them, in the order of the manifest."""
    manifest = tomllib.loads((HERE / "manifest.toml").read_text(encoding="utf-8"))
    return list(_cases(manifest))


def hard() -> list[Case]:
    """Read the harder submissions, whose texts are in one file."""
    told = tomllib.loads(HARD.read_text(encoding="utf-8"))["case"]
    return [
        Case(
            kind=one["kind"],
            name=one["name"],
            category="hard",
            wrong=one["wrong"],
            broken=one["broken"].lstrip("\n"),
            right=one["right"].lstrip("\n"),
            cheat=None,
            given=one["given"],
            held_out=one["held_out"],
        )
        for one in told
    ]


def _cases(manifest: Mapping[str, dict[str, object]]) -> Iterator[Case]:
    for kind, family in manifest.items():
        given, held_out = (_read(family.get(part, {})) for part in ("given", "held_out"))
        for name, told in family["case"].items():
            yield Case(
                kind=kind,
                name=name,
                category=told["category"],
                wrong=told["wrong"],
                broken=_text(kind, name, "broken"),
                right=_text(kind, name, "right"),
                cheat=_text(kind, name, "cheat") if list(FILES.glob(f"{kind}/{name}.cheat.*")) else None,
                given=merged(given, told.get("given", {})),
                held_out=held_out,
            )


def _text(kind: str, name: str, part: str) -> str:
    [path] = FILES.glob(f"{kind}/{name}.{part}.*")
    return path.read_text(encoding="utf-8")


def _read(value: object) -> object:
    """Put in files where their names stand."""
    match value:
        case dict():
            return {name: _read(part) for name, part in value.items()}
        case str() if value.startswith("@"):
            return (FILES / value[1:]).read_text(encoding="utf-8")
        case _:
            return value


def merged(one: Mapping[str, object], other: Mapping[str, object]) -> Document:
    """Put one object into another, by name and as deep as objects go."""
    result = dict(one)
    for name, value in other.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result
