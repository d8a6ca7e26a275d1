"""The catalogue of rules: id, severity, title and help of each rule of every kind in this repository."""

from __future__ import annotations

from pathlib import Path

from assayd.kinds import registry
from assayd.model.finding import Rule

GOLDEN = Path(__file__).with_name("catalogue.txt")


def rules() -> dict[str, tuple[Rule, list[str]]]:
    """Return every rule by its id, with the kinds that use it."""
    found: dict[str, tuple[Rule, list[str]]] = {}
    for kind in sorted(registry.list_own_kinds()):
        for rule in registry.load_own_validator(kind).rules:
            found.setdefault(rule.id, (rule, []))[1].append(kind)
    return dict(sorted(found.items()))


def written() -> str:
    """Return the catalogue as text: one rule per paragraph."""
    return "\n".join(
        f"{rule.id} ({rule.severity})\n  {rule.title}\n" + (f"  {rule.help}\n" if rule.help else "")
        for rule, _ in rules().values()
    )


if __name__ == "__main__":
    GOLDEN.write_text(written())
