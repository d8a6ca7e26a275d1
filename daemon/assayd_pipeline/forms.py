"""Implements the option `--steps`, which shows the results of the steps that an attempt ran."""

from __future__ import annotations

from collections.abc import Sequence

from assayd_client import Document, PlainClient
from assayd_client.cli.kinds import AttemptView

STEP_HEADS = ("step", "result", "exit", "took", "started", "error")


def print_steps(shown: AttemptView) -> None:
    """Print the steps that an attempt ran as a table or as JSON."""
    from assayd_client.cli.terminal import print_json

    rows = fetch_steps(shown.client, shown.attempt["id"])
    print_json(rows) if shown.as_json else print_table_of_steps(rows)


def fetch_steps(client: PlainClient, attempt_id: str) -> Sequence[Document]:
    """Return the recorded steps of an attempt, or an empty list if none ran."""
    pages = client.records("pipelines", attempt=attempt_id)["pipelines"]
    attempts = client.records("pipelines", pages[0]["id"])["attempts"] if pages else []
    return next((found["steps"] for found in attempts if found["attempt_id"] == attempt_id), [])


def print_table_of_steps(steps: Sequence[Document]) -> None:
    """Print one row per step."""
    from assayd_client.cli.terminal import format_duration, get_stdout, print_table

    print_table(
        get_stdout(),
        STEP_HEADS,
        [
            [
                f"{step['position']}. {step['name']}",
                "ok" if step["is_successful"] else "failed",
                "killed" if step["exit_code"] is None else str(step["exit_code"]),
                format_duration(step["execution_time_ms"]),
                (step["run_time"] or "")[11:23],
                step["stderr"].strip().split("\n")[0][:200],
            ]
            for step in steps
        ],
    )
