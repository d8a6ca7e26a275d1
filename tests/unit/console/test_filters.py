"""Times in filters."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from assayd.errors import RequestError
from assayd_console.pages.attempts import parse_since
from unit.console.test_pages import logged_in

NOW = datetime(2026, 5, 4, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [("24h", "2026-05-03T10:00:00+00:00"), ("2026-05-01", "2026-05-01"), ("", None)],
)
def test_time_is_counted_back_or_a_date(text: str, at: str | None) -> None:
    assert parse_since(text, NOW) == at


def test_other_text_is_refused_with_what_is_meant() -> None:
    with pytest.raises(RequestError, match="24h, 7d or a date"):
        parse_since("yesterday", NOW)


async def test_refused_filter_is_shown_at_its_field_with_the_others_kept() -> None:
    async with logged_in({}) as (client, _):
        page = await client.get("/attempts?since=yesterday&cause=timeout")

    assert page.status_code == 422
    assert 'value="yesterday" placeholder="24h" size="8"><span class="fail"' in page.text
    assert 'value="timeout"' in page.text
