"""A hostile program: a file whose first line says how it runs and how it must end.

    # expect: CAUSE [FACT…] | run: [SETTING…]

CAUSE is a `Cause`. A FACT is ``name`` (there, and neither empty nor false), ``name=value`` (exactly) or
``name~text`` (contains); names are those of `facts`. A SETTING is one of `SETTINGS`, with its default there.
What holds blanks stands in quotes, as in a shell.

A program of kind `module` is the tests of a module, or the end of its adapter, and goes through the whole
kind but for its static stages; the facts `verdict`, `rules` and `static` are the validator's.

A program of kind `call` defines ``extract(path)``; `path` is ``unit-0``, ``unit-1`` … What it got through it
gives as ``{"escaped": […]}``, which must be empty, or says as a line ``ESCAPED …`` on an output stream, of
which there must be none.
"""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from assayd.guest_results import GuestJsonError, RaisedException, Record, ReturnedValue, parse_guest_record
from assayd.model.policy import ImportMode, ImportPolicy, NetworkMode, NetworkPolicy
from assayd.model.run import Cause, Limits, Program, RunResult, RunSpec, Unit, UnitResult
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from support.guests import hostile_module
from support.slowness import SLOWER_BY

_MIB = 2**20
_FIRST_LINE = re.compile(r"# expect: (?P<cause>\w+)(?P<facts>[^|]*)(?:\| run:(?P<settings>.*))?")
CONTAINED = frozenset({"kernel", "left", "proc", "resources", "signals", "sockets"})
"""Families of programs whose walls are the container's; those of the others are the runner's."""
_FACT = re.compile(r"(?P<name>\w+)(?:(?P<relation>[=~])(?P<text>.*))?", re.DOTALL)

SETTINGS: Mapping[str, str] = {
    "program": "call",  # or python, script (python as the kind script runs it), exec (a Python started anew)
    "builtins": "full",
    "policy": "observe",  # nothing is refused, so that the walls themselves are met; else a profile's name
    "network": "blocked",
    "exec": "no",  # whether execve is left to the program
    "made": "no",  # the file is run here, and its SOURCE is what goes into the container
    "units": "1",
    "fresh": "yes",
    "deadline_s": "4",
    "timeout_s": "20",
    "memory_mb": "64",
    "processes": "6",
    "work_mb": "8",
    "work_files": "256",
    "open_files": "128",
    "kept_kb": "256",
    "read_kb": "2048",
    "result_kb": "2048",
    "stdin_kb": "0",
    "outputs_files": "10",
    "outputs_kb": "256",
    "collect": "",
    "as": "tests",  # of a module: whether the program is its tests or the end of its adapter
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One condition on the result."""

    name: str
    relation: str | None
    text: str

    def holds(self, facts: Mapping[str, str]) -> bool:
        """Return whether the condition holds."""
        found = facts.get(self.name, "")
        if self.relation == "=":
            return found == self.text
        return self.text in found if self.relation == "~" else found not in {"", "0", "False"}

    def __str__(self) -> str:
        return f"{self.name}{self.relation or ''}{self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileProgram:
    """The contents of a program's file."""

    name: str
    family: str
    source: str
    cause: Cause
    facts: tuple[Fact, ...]
    settings: Mapping[str, str]
    tries_the_engine: bool
    """Whether every engine runs it: its walls are the container's, or it is the first of its family."""

    def spec(self) -> RunSpec:
        """Return the run's spec."""
        said = self.settings
        if said["program"] == "module":
            return hostile_module.spec(self.source, said["as"])
        return RunSpec(
            image="python",
            limits=self._limits(),
            units=tuple(self._unit(index) for index in range(int(said["units"]))),
            network=NetworkPolicy(mode=NetworkMode(said["network"])),
            imports=_imports(said["policy"]),
            files={"given/data.txt": b"given"},
            collect=tuple(pattern for pattern in said["collect"].split(",") if pattern),
            allow_exec=said["exec"] == "yes",
        )

    def found(self, result: RunResult) -> dict[str, str]:
        """Return the facts about the result; for a module, also those about its validator's judgement."""
        found = facts(result)
        if self.settings["program"] == "module":
            found |= hostile_module.facts(self.source, self.settings["as"], result)
        return found

    def _limits(self) -> Limits:
        said = {name: float(text) for name, text in self.settings.items() if text.replace(".", "").isdigit()}
        return Limits(
            timeout_s=said["timeout_s"] * SLOWER_BY,
            unit_timeout_s=said["deadline_s"] * SLOWER_BY,
            memory_bytes=int(said["memory_mb"] * _MIB),
            max_processes=int(said["processes"]),
            work_bytes=int(said["work_mb"] * _MIB),
            work_files=int(said["work_files"]),
            open_files=int(said["open_files"]),
            output_kept_bytes=int(said["kept_kb"] * 1024),
            output_read_bytes=int(said["read_kb"] * 1024),
            unit_result_bytes=int(said["result_kb"] * 1024),
            outputs_files=int(said["outputs_files"]),
            outputs_bytes=int(said["outputs_kb"] * 1024),
        )

    def _unit(self, index: int) -> Unit:
        said = self.settings
        text = {"source": self.source, "filename": f"{Path(self.name).name}.py", "builtins": said["builtins"]}
        by_program: dict[str, dict[str, object]] = {
            "call": {**text, "function": "extract", "args": [f"unit-{index}"], "kwargs": {}},
            "python": {**text, "namespace": {}, "results": ["escaped"]},
            "script": {**text, "namespace": {}, "results": [], "as_script": True},
            "exec": {"argv": ["python3.11", "-I", "-S", "-c", self.source], "env": {}},
        }
        as_script = said["program"] == "script"
        return Unit(
            name=f"unit-{index}",
            program=Program.PYTHON if as_script else Program(said["program"]),
            arguments=by_program[said["program"]],
            deadline_s=float(said["deadline_s"]) * SLOWER_BY,
            stdin=b"x" * 1024 * int(said["stdin_kb"]),
            fresh_cwd=said["fresh"] == "yes",
            status_decides=as_script and said["policy"] == "observe",
        )


def read_programs(folder: Path) -> list[HostileProgram]:
    """Read all programs below a folder; a program's family is the name of its folder."""
    paths = sorted(folder.glob("*/*.py"))
    first = {path.parent: path for path in reversed(paths)}
    return [_read(path, is_first=first[path.parent] == path) for path in paths]


def _read(path: Path, *, is_first: bool) -> HostileProgram:
    text = path.read_text()
    match = _FIRST_LINE.fullmatch(text.partition("\n")[0])
    assert match is not None, f"{path} does not say what it expects"
    said = dict(word.split("=", 1) for word in shlex.split(match["settings"] or ""))
    assert said.keys() <= SETTINGS.keys(), f"{path} has settings that do not exist"
    settings = {**SETTINGS, **said}
    made = settings["made"] == "yes"
    return HostileProgram(
        name=f"{path.parent.name}/{path.stem}",
        family=path.parent.name,
        source=runpy.run_path(str(path))["SOURCE"] if made else text,
        cause=Cause(match["cause"]),
        facts=tuple(_fact(word) for word in shlex.split(match["facts"])),
        settings=settings,
        tries_the_engine=is_first or path.parent.name in CONTAINED,
    )


def _fact(word: str) -> Fact:
    match = _FACT.fullmatch(word)
    assert match is not None, f"{word} is not a fact"
    return Fact(name=match["name"], relation=match["relation"], text=match["text"] or "")


def _imports(policy: str) -> ImportPolicy:
    if policy == "observe":
        return ImportPolicy(mode=ImportMode.OBSERVE)
    return load_policies([get_shared_data_path("policies")]).get(policy).imports


def facts(result: RunResult) -> dict[str, str]:
    """Return the named facts about a result: those of the unit that decided it, and those of the run."""
    found = {name: str(value) for name, value in result.outcome.evidence.items()}
    found |= {
        "outputs": ",".join(f"{output.name}:{len(output.content)}" for output in result.outputs),
        "cut": ",".join(output.name for output in result.outputs if output.truncated),
        "dropped": ", ".join(result.outputs_dropped),
        "units": str(len(result.units)),
    }
    unit = deciding(result)
    return found if unit is None else {**_unit_facts(unit), **found}


def deciding(result: RunResult) -> UnitResult | None:
    """Return the first unit that did not complete, else the last."""
    bad = [unit for unit in result.units if not unit.outcome.completed]
    return next(iter(bad or reversed(result.units)), None)


def _unit_facts(unit: UnitResult) -> dict[str, str]:
    record = record_of(unit)
    return {
        "record": type(record).__name__ if record is not None else "none",
        "error": record.error_type if isinstance(record, RaisedException) else "",
        "message": getattr(record, "message", ""),
        "notes": "; ".join(note.problem for note in record.value.notes)
        if isinstance(record, ReturnedValue)
        else "",
        "stdout": unit.stdout.text(),
        "stderr": unit.stderr.text(),
        "stdout_bytes": str(unit.stdout.total_bytes),
        "stderr_bytes": str(unit.stderr.total_bytes),
        "stdout_kept": str(len(unit.stdout.head) + len(unit.stdout.tail)),
        "stdout_cut": str(unit.stdout.truncated),
        "malformed": unit.malformed or "",
        "left": str(unit.left_processes),
        "events": "; ".join(f"{event.kind} {event.detail}" for event in unit.events),
        "events_dropped": str(unit.events_dropped),
        "refused_events": "; ".join(f"{e.kind} {e.detail}" for e in unit.events if e.enforced),
    }


def record_of(unit: UnitResult) -> Record | None:
    """Return the unit's only record, or None if it can't be read."""
    try:
        return parse_guest_record(unit.results[0]) if len(unit.results) == 1 else None
    except GuestJsonError:
        return None


def escapes(result: RunResult) -> Iterator[str]:
    """Return what a program claims to have reached, and users' files among its outputs."""
    yield from (
        f"{output.name} is a file of users" for output in result.outputs if b"root:" in output.content
    )
    for unit in result.units:
        record = record_of(unit)
        if isinstance(record, ReturnedValue):
            value = record.value.value
            assert isinstance(value, dict), f"{unit.name} does not say what escaped"
            assert isinstance(value["escaped"], list), f"{unit.name} does not say what escaped"
            yield from map(str, value["escaped"])
        printed = f"{unit.stdout.text()}\n{unit.stderr.text()}".splitlines()
        yield from (line for line in printed if "ESCAPED" in line and "print(" not in line)
