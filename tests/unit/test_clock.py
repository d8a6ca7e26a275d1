"""ULIDs."""

from __future__ import annotations

import re

from assayd.clock import UlidGenerator, encode_crockford

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def test_ulids_increase_also_within_a_millisecond():
    ids = UlidGenerator()
    made = [ids.new() for _ in range(1000)]
    assert made == sorted(set(made))
    assert all(ULID.fullmatch(ulid) for ulid in made)


def test_the_largest_and_the_smallest_value_have_their_canonical_form():
    assert encode_crockford(0) == "0" * 26
    assert encode_crockford(2**128 - 1) == "7" + "Z" * 25
