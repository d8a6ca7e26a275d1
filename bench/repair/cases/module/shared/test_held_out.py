import httpx
import pytest
from adapter import DailyRatesAdapter


@pytest.mark.parametrize(("low", "high"), [("sek", "jpy"), ("chf", "huf")])
def test_highest_and_year_of_another_day(low, high):
    raw = {"date": "1999-12-31", "rates": [{"code": low, "rate": 0.5}, {"code": high, "rate": 160}]}
    given = DailyRatesAdapter().transform(raw)
    assert (given["year"], given["highest"], len(given["rates"])) == (1999, high.upper(), 2)


async def test_error_of_the_server_is_let_through():
    failing = DailyRatesAdapter(transport=httpx.MockTransport(lambda request: httpx.Response(503)))
    with pytest.raises(httpx.HTTPStatusError):
        await failing.fetch_raw("1999-12-31")


def test_schema_is_of_an_object():
    assert DailyRatesAdapter().get_schema()["type"] == "object"
