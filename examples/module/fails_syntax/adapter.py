"""Current weather and forecasts of Open-Meteo, in the units of the metric system."""

from datetime import datetime
from typing import Any

import httpx
from assayd_adapter import Adapter, register_adapter
from readings import Reading, describe

URL = "https://api.open-meteo.com/v1/forecast"


@register_adapter(category="weather", platform="open_meteo")
class OpenMeteoAdapter(Adapter)
    """Fetches by coordinates; `config["transport"]` replaces the network in tests."""

    async def fetch_raw(self, latitude: float, longitude: float, hours: int = 24) -> dict[str, Any]:
        if not -90 <= latitude <= 90:
            raise ValueError(f"latitude {latitude} is not on earth")
        params = {
            "latitude": latitude,
            "longitude": longitude,
            "current_weather": True,
            "hourly": "temperature_2m",
            "forecast_hours": hours,
        }
        async with httpx.AsyncClient(transport=self.config.get("transport"), timeout=10) as client:
            response = await client.get(URL, params=params)
        response.raise_for_status()
        return response.json()

    def transform(self, raw: dict[str, Any]) -> dict[str, Any]:
        current = raw["current_weather"]
        now = Reading(
            at=datetime.fromisoformat(current["time"]),
            celsius=current["temperature"],
            wind_kmh=current["windspeed"],
            code=current["weathercode"],
        )
        hourly = raw.get("hourly", {})
        return {
            "current": {"celsius": now.celsius, "wind_ms": now.wind_ms, "sky": describe(now.code)},
            "forecast": [
                {"at": at, "celsius": celsius}
                for at, celsius in zip(hourly.get("time", []), hourly.get("temperature_2m", []))
            ],
        }

    def get_schema(self) -> dict[str, Any]:
        reading = {"type": "object", "required": ["celsius", "wind_ms", "sky"]}
        return {"type": "object", "properties": {"current": reading, "forecast": {"type": "array"}}}
