"""Draws the trace of one repaired generation, as a collector receives it from a daemon that this starts.

    deploy/dev/oci.sh run .venv/bin/python tests/trace_picture.py docs/trace.svg

The provider is a program: its first answer raises, its second is right.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from support.collector import Received, collecting
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, PATH, RAISES

WRITER = """
import json, sys, time
asked = json.load(sys.stdin)
time.sleep(0.04)
code = {good!r} if "ValueError" in json.dumps(asked) else {bad!r}
print(json.dumps({{"code": code, "reason": "As asked."}}))
"""
ROW, LEFT, WIDTH, TOP = 20, 190, 900, 34
COLOURS = {
    "generation": "#6b4fa0",
    "repair": "#b0568f",
    "answer": "#c98a2b",
    "attempt": "#2f6f9f",
    "run": "#3f8f5f",
    "unit": "#3f8f5f",
}


def traced() -> Sequence[Received]:
    """Return the spans of one generation with a repair."""
    with collecting() as collector:
        daemon = DaemonProcess(
            "oci", settings={"TRACING__ENDPOINT": collector.endpoint, "POOL__DEFAULT_TARGET": "2"}
        )
        writer = daemon.home / "writer.py"
        writer.write_text(WRITER.format(good=GOOD, bad=RAISES))
        providers = {"played": {"type": "command", "argv": [sys.executable, str(writer)]}}
        daemon.settings["REPAIR__PROVIDERS"] = json.dumps(providers)
        try:
            daemon.start()
            words = "client, year and quarter"
            # The first one starts what stays: its time isn't that of the others.
            for count in (1, 2):
                daemon.assay(
                    "generate", "extractor", words, "--sample-path", PATH, "--yes", "--name", "t", "--json"
                )
                generation = collector.wait_for("generation", count)[-1]
        finally:
            daemon.dispose()
    return [span for span in collector.spans if span.trace_id == generation.trace_id]


def rows(spans: Sequence[Received], parent: str, depth: int = 0) -> Iterator[tuple[int, Received]]:
    """Return the spans below a parent with their depths, in waterfall order."""
    for span in spans:
        if span.parent_id == parent:
            yield depth, span
            yield from rows(spans, span.span_id, depth + 1)


def drawn(spans: Sequence[Received]) -> str:
    """Return the picture."""
    (root,) = (span for span in spans if span.name == "generation")
    scale = (WIDTH - LEFT - 70) / root.took_ms
    lines = list(rows(spans, root.parent_id))
    height = TOP + ROW * len(lines) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="12"'
        ' font-family="system-ui, sans-serif" role="img">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    step_ms = next(step for step in (10, 20, 50, 100, 200, 500, 1000, 2000) if root.took_ms / step <= 10)
    for tick in range(int(root.took_ms // step_ms) + 1):
        x = LEFT + tick * step_ms * scale
        parts.append(f'<line x1="{x:.1f}" y1="22" x2="{x:.1f}" y2="{height - 8}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{x:.1f}" y="16" fill="#666" text-anchor="middle">{tick * step_ms} ms</text>')
    for number, (depth, span) in enumerate(lines):
        y = TOP + number * ROW
        x = LEFT + (span.began_ns - root.began_ns) / 1e6 * scale
        width = max(span.took_ms * scale, 1.5)
        verdict = span.facts.get("outcome") or span.facts.get("verdict") or ""
        label = f"{span.took_ms:.1f} ms {verdict}".rstrip()
        inside = x + width + 8 + 6.2 * len(label) > WIDTH
        place = (x + width - 6, "end", "#fff") if inside else (x + width + 5, "start", "#444")
        parts += [
            f'<text x="{8 + depth * 12}" y="{y + 11}" fill="#222">{escape(span.name)}</text>',
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="14" rx="2"'
            f' fill="{COLOURS.get(span.name, "#8a9aa8")}"/>',
            f'<text x="{place[0]:.1f}" y="{y + 11}" fill="{place[2]}" text-anchor="{place[1]}"'
            f' font-size="11">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawn(traced()))
