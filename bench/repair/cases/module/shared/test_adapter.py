import httpx
import pytest
from adapter import DailyRatesAdapter

ANSWER = {"date": "2024-05-02", "rates": [{"code": "nok", "rate": "11.8"}, {"code": "usd", "rate": "1.07"}]}


@pytest.fixture
def adapter():
    return DailyRatesAdapter(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=ANSWER)))


async def test_fetch(adapter):
    assert await adapter.fetch_raw("2024-05-02") == ANSWER


def test_transform(adapter):
    given = adapter.transform(ANSWER)
    assert given == {"year": 2024, "rates": {"NOK": 11.8, "USD": 1.07}, "highest": "NOK"}


def test_schema(adapter):
    assert set(adapter.get_schema()["required"]) == set(adapter.transform(ANSWER))
