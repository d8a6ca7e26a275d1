"""`--form flat`: the fields that were read, one per line."""

from __future__ import annotations

from assayd_client.cli.kinds import AttemptView
from assayd_client.cli.terminal import plain


def print_flat(shown: AttemptView) -> None:
    """Print the fields that were read, with their values."""
    results = (shown.attempt["report"] or {}).get("runtime_results") or {"cases": []}
    for case in results["cases"]:
        if case["status"] == "passed":
            print(plain(f"{case['name']}={case['result']}"))
