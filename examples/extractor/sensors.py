"""Hive-partitioned sensor readings: /lake/site=oslo/dt=2024-06-01/hour=13/part-00007.parquet"""

from __future__ import annotations

import os.path
from dataclasses import asdict, dataclass
from datetime import datetime, timezone


@dataclass(frozen=True)
class Reading:
    site: str
    hour_start: str
    partition: int | None
    format: str


def partitions(path: str) -> dict[str, str]:
    pairs = (segment.partition("=") for segment in path.split(os.sep))
    return {key: value for key, equals, value in pairs if equals}


def extract(path: str) -> dict:
    found = partitions(path)
    if not {"site", "dt", "hour"} <= found.keys():
        return {}
    start = datetime.strptime(f"{found['dt']} {int(found['hour']):02}", "%Y-%m-%d %H")
    stem, extension = os.path.splitext(os.path.basename(path))
    part = stem.removeprefix("part-")
    reading = Reading(
        site=found["site"],
        hour_start=start.replace(tzinfo=timezone.utc).isoformat(),
        partition=int(part) if part.isdigit() else None,
        format=extension.lstrip("."),
    )
    return asdict(reading)
