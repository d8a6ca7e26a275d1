"""What a batch came to, by verdict, rule and cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from assayd_client import Document
from assayd_client.cli.screen import StyledLine, line
from assayd_client.cli.terminal import plain, shorten

MOST_SHOWN = 15
MOST_LINES = 8
MOST_REASONS = 3
"""Of each code, so many lines are quoted with what was said of them."""


class Summary:
    """Counts over the items of a batch."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._lines: defaultdict[str, list[int]] = defaultdict(list)
        self._reasons: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, item: Document) -> None:
        """Count one item."""
        self.verdicts[item["verdict"] or "waiting"] += 1
        self.rules.update(item["rules"])
        if item["cause"] is not None:
            self.causes[item["cause"]] += 1
        if item["error"] is not None:
            code = item["error"]["code"]
            self.errors[code] += 1
            if len(self._lines[code]) < MOST_LINES:
                self._lines[code].append(item["line"])
            if len(self._reasons[code]) < MOST_REASONS:
                field = f"{item['error']['field']}: " if item["error"].get("field") else ""
                said = item["error"]["message"].removeprefix(field)
                self._reasons[code].append(f"line {item['line']}: {field}{said}")

    def document(self, batch: Document) -> Document:
        """Return all counts, with the batch that they are of."""
        return {
            "batch": batch,
            "verdicts": dict(self.verdicts),
            "rules": dict(self.rules.most_common()),
            "causes": dict(self.causes.most_common()),
            "malformed": dict(self.errors.most_common()),
        }

    @property
    def causes_of_failures(self) -> Counter[str]:
        """Return how runs ended that did not end well; `completed` is no cause of a failure."""
        return Counter({name: number for name, number in self.causes.items() if name != "completed"})

    def lines(self) -> Iterator[StyledLine]:
        """Return the lines that show it to a person."""
        for head, counts in (
            ("Rules", self.rules),
            ("Causes", self.causes_of_failures),
            ("Lines that cannot be submitted", self.errors),
        ):
            if counts:
                yield line("")
                yield line((head, "bold"))
                for name, number in counts.most_common(MOST_SHOWN):
                    places = self._places(name) if counts is self.errors else ""
                    yield line(f"{number:>8} {plain(name)}{places}", hang=9)
                    reasons = self._reasons[name] if counts is self.errors else ()
                    yield from (line(f"{'':>11}{shorten(said, 300)}", hang=13) for said in reasons)
                if len(counts) > MOST_SHOWN:
                    yield line((f"         … and {len(counts) - MOST_SHOWN} more", "dim"))

    def _places(self, code: str) -> str:
        """Name the lines that could not be submitted for this reason, as far as they are few."""
        lines = self._lines[code]
        more = ", …" if self.errors[code] > len(lines) else ""
        return f": line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{more}"
