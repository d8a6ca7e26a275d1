"""Exchange rates of one day."""

from datetime import date
from typing import Any

import httpx
from assayd_adapter import Adapter, register_adapter
from rates import Rate, parse_rate


@register_adapter(category="finance", platform="daily_rates")
class DailyRatesAdapter(Adapter):
    async def fetch_raw(self, day: str) -> dict[str, Any]:
        async with httpx.AsyncClient(transport=self.config.get("transport")) as client:
            response = await client.get("https://rates.example.com/v1/daily", params={"date": day})
        response.raise_for_status()
        return response.json()

    def transform(self, raw: dict[str, Any]) -> dict[str, Any]:
        day = date.fromisoformat(raw["date"])
        rates: list[Rate] = [parse_rate(item) for item in raw["rates"]]
        return {
            "year": day.year,
            "rates": {rate.currency: rate.value for rate in rates},
            "highest": min(rates, key=lambda rate: rate.value).currency,
        }

    def get_schema(self) -> dict[str, Any]:
        return {"type": "object", "required": ["year", "rates", "highest"]}
