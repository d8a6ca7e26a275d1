"""What a reading is, and what its code means."""

from dataclasses import dataclass
from datetime import datetime

SKIES = {0: "clear", 1: "mainly clear", 2: "partly cloudy", 3: "overcast", 45: "fog", 61: "rain", 71: "snow"}


@dataclass(frozen=True)
class Reading:
    at: datetime
    celsius: float
    wind_kmh: float
    code: int

    @property
    def wind_ms(self) -> float:
        return round(self.wind_kmh / 3.6, 1)


def describe(code: int) -> str:
    return SKIES.get(code, f"code {code}")
