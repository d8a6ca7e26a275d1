"""Untrusted text on a page: visible and harmless in every template."""

from __future__ import annotations

from assayd_console.live import encode_event
from assayd_console.rendering import (
    LINE_CHARS,
    MAX_SHOWN_TEXT_CHARS,
    build_environment,
    cut_lines,
    mark_invisible,
)


def test_whatever_a_template_prints_is_escaped_and_visible() -> None:
    template = build_environment().from_string('<a title="{{ text }}">{{ text }}</a>')

    shown = template.render(text='"><script>\u202e\x1b\r')

    assert (
        shown
        == '<a title="&#34;&gt;&lt;script&gt;\\x202e\\x1b\\x0d">&#34;&gt;&lt;script&gt;\\x202e\\x1b\\x0d</a>'
    )


def test_codes_are_set_apart_from_text_that_looks_like_them() -> None:
    assert mark_invisible("\\x1b \x1b<") == '\\x1b <span class="code">\\x1b</span>&lt;'


def test_codes_in_a_row_are_set_apart_together() -> None:
    assert mark_invisible("\xad\xad<\xad") == (
        '<span class="code">\\xad\\xad</span>&lt;<span class="code">\\xad</span>'
    )


def test_long_text_is_cut_counted_and_had_whole_elsewhere() -> None:
    shown = cut_lines("b\n" * (MAX_SHOWN_TEXT_CHARS // 2 + 5))

    assert len(shown) < MAX_SHOWN_TEXT_CHARS + 100
    assert shown.endswith("… (10 more characters)")
    assert cut_lines("b\n" * (MAX_SHOWN_TEXT_CHARS // 2)) == "b\n" * (MAX_SHOWN_TEXT_CHARS // 2)


def test_long_line_is_cut_and_counted() -> None:
    assert (
        cut_lines("a\n" + "b" * (LINE_CHARS + 1500)) == "a\n" + "b" * LINE_CHARS + "… (1,500 more characters)"
    )


def test_carriage_return_begins_no_line_of_an_event() -> None:
    assert encode_event("rows", "a\rdata: b\nc") == b"event: rows\ndata: a&#13;data: b\ndata: c\n\n"
