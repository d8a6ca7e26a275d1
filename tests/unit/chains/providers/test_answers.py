"""The pause that a provider asks for in its Retry-After header."""

from __future__ import annotations

import pytest

from assayd_chains.providers.answers import MAX_RETRY_DELAY_S, parse_retry_after_s

NOW = "Fri, 27 Nov 2026 06:00:00 GMT"


@pytest.mark.parametrize(
    ("wanted", "seconds"),
    [
        ("30", 30),
        ("Fri, 27 Nov 2026 06:00:30 GMT", 30),
        ("Fri, 27 Nov 2026 05:00:00 GMT", 0),
        ("Fri, 27 Nov 2099 06:00:00 GMT", MAX_RETRY_DELAY_S),
        ("9" * 40, MAX_RETRY_DELAY_S),
        ("soon", None),
        ("", None),
    ],
)
def test_pause_is_read_from_number_or_date_and_capped_at_a_day(wanted: str, seconds: float | None) -> None:
    assert parse_retry_after_s({"retry-after": wanted, "date": NOW}) == seconds
