"""What a rate is, and how one is read."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rate:
    currency: str
    value: float


def parse_rate(item: dict[str, Any]) -> Rate:
    return Rate(currency=item["code"].upper(), value=float(item["rate"]))
