"""The corpus of Fifth programs, and the findings by layer; run as a program, it prints them."""

from __future__ import annotations

import gc
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from assayd.model.finding import Finding, Severity
from assayd_fifth.analysis import analyze_program
from assayd_fifth.rules import STAGE_NAMES

CORPUS = Path(__file__).parents[2] / "unit/fifth/corpus"
Place = tuple[str, int]
"""A rule and a line."""


def cases() -> list[dict[str, object]]:
    """Return the programs with exactly one fault each."""
    listed: list[dict[str, object]] = tomllib.loads((CORPUS / "invalid.toml").read_text())["case"]
    return listed


def programs() -> list[Path]:
    """Return the valid programs."""
    return sorted((CORPUS / "valid").glob("*.fs"))


def expected_warnings(program: Path) -> set[Place]:
    """Return the warnings that are correct in a valid program."""
    listed = tomllib.loads((CORPUS / "valid/expected.toml").read_text())
    return {(rule, line) for rule, lines in listed.get(program.stem, {}).items() for line in lines}


def found(code: str, libraries: object = ()) -> list[Finding]:
    """Return the findings of a program, without those for information."""
    stages = analyze_program(code, libraries=libraries).findings  # type: ignore[arg-type]
    return [f for stage in stages.values() for f in stage if f.severity is not Severity.INFO]


def places(findings: list[Finding]) -> set[Place]:
    """Return the rule and line of each finding."""
    return {(finding.rule, finding.line or 0) for finding in findings}


def figures() -> Iterator[tuple[str, int, int, int]]:
    """Return for each layer the number of expected findings, of those found, and of wrong findings."""
    wanted: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    pairs = [
        ({(str(c["rule"]), c["line"])}, places(found(str(c["code"]), c.get("libraries", ()))))
        for c in cases()
    ]
    pairs += [(expected_warnings(p), places(found(p.read_text()))) for p in programs()]  # type: ignore[arg-type]
    for want, got in pairs:
        for counter, these in ((wanted, want), (hit, want & got), (wrong, got - want)):  # type: ignore[operator]
            counter.update(rule.partition(".")[0] for rule, _ in these)
    for stage in STAGE_NAMES:
        yield stage, wanted[stage], hit[stage], wrong[stage]


def table() -> str:
    """Return the figures as the page's table."""
    rows = [
        "| layer | to be found | found | found wrongly | precision | recall |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for stage, wanted, hit, wrong in figures():
        precision, recall = hit / (hit + wrong), hit / wanted
        rows.append(f"| {stage} | {wanted} | {hit} | {wrong} | {precision:.0%} | {recall:.0%} |")
    return "\n".join(rows)


def seconds(size: int = 10**6, runs: int = 5) -> list[float]:
    """Return processor times, the least first, for a text of so many characters: the valid programs, in turn.

    The collector is set as in an analysis worker.
    """
    text = "\n".join(islice(cycle(program.read_text() for program in programs()), 10**4))[:size]
    analyze_program("")
    gc.freeze()
    gc.set_threshold(10_000, 10, 5)
    return sorted(_measured(text) for _ in range(runs))


def _measured(text: str) -> float:
    gc.collect()
    began = time.process_time()
    analyze_program(text)
    return time.process_time() - began


def speed() -> str:
    """Return the time for a megabyte as text."""
    times = seconds()
    return f"{times[0]:.2f} s of processor time for 1 MB, {times[len(times) // 2]:.2f} s in the middle"


if __name__ == "__main__":
    print(speed() if sys.argv[1:] == ["time"] else table())
