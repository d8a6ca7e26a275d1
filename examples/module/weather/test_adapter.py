import json
from pathlib import Path

import httpx
import pytest
from adapter import OpenMeteoAdapter
from readings import describe

ANSWER = json.loads(Path("answer.json").read_text())


@pytest.fixture
def asked():
    return []


@pytest.fixture
def adapter(asked):
    def answer(request):
        asked.append(request.url)
        return httpx.Response(200, json=ANSWER)

    return OpenMeteoAdapter(transport=httpx.MockTransport(answer))


async def test_fetch_asks_for_the_place(adapter, asked):
    assert await adapter.fetch_raw(59.9, 10.7, hours=2) == ANSWER
    assert (asked[0].host, asked[0].params["latitude"]) == ("api.open-meteo.com", "59.9")


async def test_fetch_refuses_a_place_that_is_none(adapter, asked):
    with pytest.raises(ValueError, match="not on earth"):
        await adapter.fetch_raw(91, 0)
    assert asked == []


async def test_fetch_lets_an_error_of_the_server_through():
    failing = OpenMeteoAdapter(transport=httpx.MockTransport(lambda request: httpx.Response(500)))
    with pytest.raises(httpx.HTTPStatusError):
        await failing.fetch_raw(59.9, 10.7)


class TestTransform:
    def test_current(self, adapter):
        assert adapter.transform(ANSWER)["current"] == {"celsius": 9.4, "wind_ms": 5.0, "sky": "overcast"}

    def test_forecast(self, adapter):
        assert [hour["celsius"] for hour in adapter.transform(ANSWER)["forecast"]] == [9.4, 10.1]

    def test_forecast_may_be_missing(self, adapter):
        assert adapter.transform({"current_weather": ANSWER["current_weather"]})["forecast"] == []


@pytest.mark.parametrize(("code", "sky"), [(0, "clear"), (45, "fog"), (99, "code 99")])
def test_sky(code, sky):
    assert describe(code) == sky


def test_schema_names_what_transform_gives(adapter):
    assert set(adapter.transform(ANSWER)) == set(adapter.get_schema()["properties"])
