"""Puts slips into submissions that are right, and counts how well their reports help.

    python -m bench.slips.run [MOST]

Of each slip: does the submission fail; is a finding at its line; is the remedy named; is there an edit that
is
certain, and does it make the submission right again. Only places that are run are chosen, as far as that
can be
told. What the figures should be: docs/decisions/0041.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import assayd
from assayd.model.finding import Edit
from assayd_chains.providers.rules import apply_edits, remove_overlapping_edits
from assayd_client import Document, PlainClient
from bench import RESULTS
from bench.daemon import daemon
from bench.figures import machine
from bench.slips.python_slips import STATIC, Slip, slips
from bench.slips.sources import REAL, Source, examples, real
from bench.slips.words import word_slips

SETS = ("extractors", "nodes", "modules", "scripts", "bash", "sql")
GOALS = {"failed": 0.99, "at_the_line": 0.98, "remedy_named": 0.98, "certain_edit": 0.70, "made_wrong": 0.0}
PER_PAIR = 14
"""Slips of one kind in one kind of submission."""
AT_ONCE = 3
WAIT_S = 120
_TRACER = """
import sys
LINES = set()
def trace(frame, event, argument):
    if frame.f_code.co_filename != "traced.py":
        return None
    LINES.add(frame.f_lineno)
    return trace
source, given = SOURCE, GIVEN
space = {"__name__": "traced", **given.get("inputs", {})}
code = compile(source, "traced.py", "exec")
sys.settrace(trace)
try:
    exec(code, space)
    for path in given.get("paths", ()):
        space["extract"](path)
except BaseException:
    pass
sys.settrace(None)
print("LINES", sorted(LINES))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What became of one slip."""

    kind: str
    slip: str
    name: str
    failed: bool
    at_the_line: bool
    remedy_named: bool
    certain_edit: bool
    made_wrong: bool
    told: str


class Bench:
    """A daemon, and what right texts give there."""

    def __init__(self, client: PlainClient) -> None:
        self._client = client

    def submit(self, kind: str, payload: Mapping[str, object]) -> Document:
        """Submit, and wait for the finished attempt."""
        submission = {"kind": kind, "payload": dict(payload)}
        attempt = self._client.submit(submission, wait_s=WAIT_S)
        # An internal error says nothing of the slip.
        return attempt if attempt["verdict"] != "error" else self._client.submit(submission, wait_s=WAIT_S)

    def reached(self, source: Source) -> frozenset[int] | None:
        """Find out which lines of a text run; None where that cannot be told."""
        payload = source.put(source.text)
        if source.language != "python" or source.kind == "module":
            return None
        given = {"inputs": payload.get("inputs", {}), "paths": payload.get("sample_paths", [])}
        code = _TRACER.replace("SOURCE", repr(source.text)).replace("GIVEN", repr(given))
        attempt = self.submit("script", {"code": code})
        said = (attempt["execution"] or {}).get("stdout", "")
        found = [line for line in said.splitlines() if line.startswith("LINES ")]
        return frozenset(json.loads(found[-1].removeprefix("LINES "))) if found else None

    def look(self, source: Source, slip: Slip, right: object) -> Seen:
        """Submit a slip, read its report, and try what the edits come to."""
        attempt = self.submit(source.kind, source.put(slip.text))
        findings = attempt["report"]["findings"]
        errors = [f for f in findings if f["severity"] == "error"]
        told = [f for f in findings if f["severity"] != "info"]
        words = " ".join(f"{f['message']} {f['suggestion']}" for f in told)
        edits = [hint["edit"] for hint in attempt["report"]["fix_hints"] if hint["edit"]]
        failed = attempt["verdict"] == "failed"
        changed = (
            apply_edits(slip.text, remove_overlapping_edits([Edit(**edit) for edit in edits]))
            if edits
            else slip.text
        )
        mended = changed != slip.text and failed
        again = self.submit(source.kind, source.put(changed)) if mended else None
        good = again is not None and shown(again) == right
        return Seen(
            kind=source.kind,
            slip=slip.kind,
            name=source.name,
            failed=failed,
            at_the_line=any(f["line"] in slip.lines for f in told) or any(map(slip.is_touched, edits)),
            remedy_named=any(remedy.lower() in words.lower() for remedy in slip.remedies),
            certain_edit=good,
            made_wrong=again is not None and again["verdict"] == "validated" and not good,
            told=" | ".join(f"{f['line']}: {f['message']} -> {f['suggestion']}" for f in errors[:3])[:400],
        )


def shown(attempt: Document) -> object:
    """Return what can be seen of an attempt from outside."""
    cases = (attempt["report"]["runtime_results"] or {}).get("cases", [])
    return attempt["verdict"], [(case["name"], case["status"], case["result"]) for case in cases]


def chosen(bench: Bench, most: int) -> Iterator[tuple[Source, Slip, object]]:
    """Choose slips, as many of each kind in each kind of submission, until there are enough."""
    chance = random.Random(20260101)
    at_hand = SETS if REAL.is_dir() else ()
    sources = [*examples(), *(source for which in at_hand for source in real(which))]
    chance.shuffle(sources)
    counts: Counter[tuple[str, str, str]] = Counter()
    given = 0
    for source in sources:
        if given >= most:
            return
        if all(
            n >= PER_PAIR for (k, la, _), n in counts.items() if (k, la) == (source.kind, source.language)
        ) and (sum((k, la) == (source.kind, source.language) for k, la, _ in counts) >= 12):
            continue
        attempt = bench.submit(source.kind, source.put(source.text))
        if attempt["verdict"] != "validated":
            continue
        found = (
            slips(source.text, bench.reached(source), chance)
            if source.language == "python"
            else word_slips(source.language, source.text, chance)
        )
        for slip in found:
            key = (source.kind, source.language, slip.kind)
            if counts[key] < PER_PAIR:
                counts[key] += 1
                given += 1
                yield source, slip, shown(attempt)


def summary(seen: Sequence[Seen]) -> Document:
    """Count: in all, by kind of slip and of submission."""
    return {
        **_counts(seen),
        "python": _counts([one for one in seen if one.kind != "pipeline"]),
        "by_slip": _by("slip", seen),
        "by_kind": _by("kind", seen),
        "goals": GOALS,
        "made_wrong_by": [f"{one.kind}/{one.name}: {one.slip}" for one in seen if one.made_wrong],
    }


def _counts(seen: Sequence[Seen]) -> Document:
    if not seen:
        return {"total": 0}
    share = {name: round(sum(getattr(one, name) for one in seen) / len(seen), 3) for name in GOALS}
    return {"total": len(seen), **share}


def _by(field: str, seen: Sequence[Seen]) -> Document:
    names = sorted({getattr(one, field) for one in seen})
    return {name: _counts([one for one in seen if getattr(one, field) == name]) for name in names}


def main() -> None:
    """Measure, and write what was found."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    began = datetime.now(UTC)
    with (
        tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder,
        daemon(Path(folder) / "daemon") as target,
        PlainClient(target.socket) as client,
        ThreadPoolExecutor(AT_ONCE) as workers,
    ):
        bench = Bench(client)
        running = [workers.submit(bench.look, *one) for one in chosen(bench, most)]
        looked = [one.result() for one in running]
    # A program is decided by how it ends: what leaves that as it was is no slip that its kind can see.
    seen = [one for one in looked if one.failed or one.kind != "script" or one.slip in STATIC]
    run = {
        "date": began.isoformat(timespec="seconds"),
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 2),
        "load": os.getloadavg()[1],
        "assayd": assayd.__version__,
        "machine": machine(),
    }
    document = {**summary(seen), "ends_as_before": len(looked) - len(seen), "run": run}
    (RESULTS / "slips.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for one in seen:
        if not (one.failed and one.at_the_line and one.remedy_named) or one.made_wrong:
            print(json.dumps(asdict(one)), file=sys.stderr)
    for title, counts in (("all", document), ("python", document["python"])):
        if not counts["total"]:
            continue
        told = ", ".join(f"{name} {counts[name]:.1%} (goal {goal:.0%})" for name, goal in GOALS.items())
        print(f"slips in correct code, {title}: {counts['total']}, {told}")


if __name__ == "__main__":
    main()
