"""Formats events and the rows of most listings; those of batches are in `batch.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from assayd_client import Document, StreamEvent
from assayd_client.cli.terminal import (
    STYLE_BY_STATUS,
    StyledLine,
    build_line,
    format_count,
    format_duration,
    get_stdout,
    plain,
    shorten,
)

FILE_LABEL = "file"
"""The label with the name of the file or folder that the user submitted."""


REPORT_ONLY = "report-only"
"""The mark of an attempt whose policy only reports violations."""
MAX_LABEL_CHARS = 40
"""Maximum number of characters of an attempt's labels in a displayed list."""


def build_attempt_row(attempt: Document) -> list[str]:
    """Return the cells of an attempt's table row for programs.

    The last two cells contain the attempt's rules or internal error, and `report-only` if the policy wasn't
    enforced.
    """
    cells = _build_attempt_cells(attempt, None)
    return [
        *cells,
        _format_labels(attempt["labels"]),
        " ".join(_list_reasons(attempt)),
        _format_report_mode(attempt),
    ]


def build_display_attempt_row(attempt: Document, today: str, *, wide: bool) -> list[str]:
    """Return the table cells of an attempt for display, with a short time.

    The last cell contains all remarks: the rules, the file and the other labels. Without `wide`, it
    contains only the first rule, the number of further rules, and truncated labels.
    """
    others = dict(attempt["labels"])
    file, labels, reasons = others.pop(FILE_LABEL, ""), _format_labels(others), _list_reasons(attempt)
    if not wide:
        labels = shorten(labels, MAX_LABEL_CHARS)
        reasons = [*reasons[:1], *([f"+{len(reasons) - 1}"] if len(reasons) > 1 else [])]
    last = "  ".join(filter(None, (_format_report_mode(attempt), " ".join(reasons), file, labels)))
    return [*_build_attempt_cells(attempt, today), last]


def _build_attempt_cells(attempt: Document, today: str | None) -> list[str]:
    total = attempt["timings_ms"]["total"]
    return [
        attempt["id"],
        attempt["kind"],
        attempt["verdict"] or attempt["state"],
        format_short_time(attempt["created_at"], today),
        "" if total is None else format_duration(total),
    ]


def _format_report_mode(judged: Document) -> str:
    """Return the mark of a report-only attempt or profile, or an empty string."""
    return REPORT_ONLY if judged.get("enforcement") == "report" else ""


def _format_labels(labels: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _list_reasons(attempt: Document) -> list[str]:
    if attempt.get("distrusted_at") is not None:
        return [f"distrusted: node {attempt['node']}"]
    return [attempt["error"]["code"]] if attempt["error"] is not None else list(attempt["rules"])


def format_short_time(at: str, today: str | None) -> str:
    """Return the time of day for today, or the date for other days.

    The full time is returned if `today` is None.
    """
    if today is None:
        return at[:19] + "Z"
    return at[11:19] + "Z" if at[:10] == today else at[:10]


def build_artifact_row(artifact: Document, *, whole: bool) -> list[str]:
    """Return the table cells of a file in a bundle. With `whole`, digest and type are complete."""
    digest, media_type = artifact["sha256"], artifact["media_type"]
    if not whole:
        digest, media_type = digest[:10], media_type.partition(";")[0]
    return [artifact["name"], str(artifact["bytes"]), media_type, digest]


ARTIFACT_COLUMNS = ("name", "bytes", "type", "sha256")
ATTEMPT_COLUMNS = ("id", "kind", "verdict", "created", "took", "rule, file, labels")


def build_policy_row(policy: Document) -> list[str]:
    """Return the table cells of a profile: name, timeouts, memory, processes and description."""
    resources = policy["resources"]
    return [
        policy["name"],
        f"{resources['timeout_s']:g}s",
        f"{resources['unit_timeout_s']:g}s",
        f"{resources['memory_mb']:g}MB",
        str(resources["max_processes"]),
        f"{_format_report_mode(policy)}: {policy['description']}".removeprefix(": "),
    ]


POLICY_COLUMNS = ("name", "timeout", "unit", "memory", "processes", "")


def iter_policy_values(policy: Document) -> Iterator[tuple[str, str, str]]:
    """Yield the values of a profile by dotted name, with the files and lines that set each value."""
    shown = {name: value for name, value in policy.items() if name != "origins"}
    for field, value in flatten_document(shown):
        places = policy["origins"].get(field, ())
        yield field, value, ", ".join(f"{Path(each['file']).name}:{each['line']}" for each in places)


POLICY_VALUE_COLUMNS = ("field", "value", "set in")


def flatten_document(document: Mapping[str, object], within: str = "") -> list[tuple[str, str]]:
    """Return the values of a nested document as pairs of dotted name and text."""
    rows: list[tuple[str, str]] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            rows += flatten_document(value, f"{within}{key}.")
        elif isinstance(value, list):
            rows.append((within + key, ", ".join(map(str, value))))
        else:
            rows.append((within + key, _format_policy_value(value)))
    return rows


def _format_policy_value(value: object) -> str:
    """Return a policy value as in TOML, or an empty string for None."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def build_check_row(check: Document) -> list[str]:
    """Return the table cells of one health check of the daemon."""
    took = f"{check['took_ms'] / 1000:.1f} s" if check["took_ms"] else ""
    return [check["status"], check["check"], check["detail"], check["remedy"], took]


def iter_check_lines(checks: Sequence[Document]) -> Iterator[StyledLine]:
    """Yield a line for each check, followed by remedies, and the number of failed checks."""
    width = max((len(check["check"]) for check in checks), default=0)
    for check in checks:
        status, name = check["status"], plain(check["check"])
        took = f"  {check['took_ms'] / 1000:.1f} s" if check["took_ms"] else ""
        head = (f"{status:<4}", STYLE_BY_STATUS[status])
        yield build_line(head, f"  {name:<{width}}  {plain(check['detail'])}", (took, "dim"), hang=width + 8)
        if check["remedy"]:
            yield build_line(f"{'':6}fix: ", (plain(check["remedy"]), "bold"), hang=11)
    bad = {status: sum(check["status"] == status for check in checks) for status in ("fail", "warn")}
    yield build_line("")
    yield build_line(
        f"{format_count(len(checks), 'check')}: {bad['fail']} failed, {format_count(bad['warn'], 'warning')}"
    )


CHECK_COLUMNS = ("", "check", "seen", "remedy", "took")


def format_event(event: StreamEvent) -> StyledLine:
    """Return an event as one styled line with time, kind and body."""
    body = " ".join(f"{key}={value}" for key, value in event.body.items())
    shown = plain(body.rstrip("\n")).replace("\n", "⏎")
    return build_line((event.at[11:23], "dim"), f" {event.kind:<8} {shown}", hang=22)


def print_events(events: Iterable[StreamEvent], *, as_json: bool, with_id: bool) -> None:
    """Print each event on arrival, as a line or as a JSON object.

    If `with_id` is True, the JSON object contains the attempt's id.
    """
    console = get_stdout()
    for event in events:
        named = {"attempt_id": event.attempt_id} if with_id else {}
        if as_json:
            document = {"id": event.id, **named, "kind": event.kind, "at": event.at, "body": event.body}
            print(json.dumps(document), flush=True)
        else:
            name = f"{plain(event.attempt_id or ''):<26} " if with_id else ""
            console.print(build_line((name, "bold"), hang=22) + format_event(event))


ANSWER_COLUMNS = (
    "week",
    "kind",
    "provider",
    "generated",
    "at once",
    "answers",
    "repaired",
    "hinted",
    "rules",
)
_MAX_LISTED_RULES = 3


def iter_answer_rows(weeks: Iterable[Document]) -> Iterator[tuple[str, ...]]:
    """Yield a table row with the counts of answers for each week, kind and provider.

    Each rule is shown with the number of failed attempts that broke it, and with the number of next attempts
    that no longer broke it, out of all next attempts.
    """
    for one in weeks:
        mean = one["answers_to_pass"]
        yield (
            one["week"],
            one["kind"],
            one["provider"],
            f"{one['validated']}/{one['generations']}",
            f"{one['validated_at_once']}/{one['generations']}",
            "–" if mean is None else f"{mean:g}",
            f"{one['repaired']}/{one['repairs']}",
            f"{one['hinted_repaired']}/{one['hinted']}",
            ", ".join(
                f"{each['rule']} {each['attempts']} (cleared {each['cleared']}/{each['answered']})"
                for each in one["rules"][:_MAX_LISTED_RULES]
            ),
        )
