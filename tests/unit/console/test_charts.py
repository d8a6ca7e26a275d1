"""Charts: their counts, and that names in them are escaped."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from assayd_console import charts
from assayd_console.charts import ChartBar

HOSTILE = '"><script>\u202e'


def shapes(picture: str, tag: str) -> list[ET.Element]:
    return ET.fromstring(picture).findall(f".//{tag}")


def test_bars_are_as_long_as_their_numbers_and_lead_where_they_say() -> None:
    rows = [ChartBar(name="a", number=4, shown="4", href="/a"), ChartBar(name="b", number=1, shown="1")]
    picture = charts.draw_bar_chart(rows, title="t", of=8)

    wide = [float(each.attrib["width"]) for each in shapes(picture, "rect")]
    assert wide[0] == 4 * wide[1]
    assert [each.attrib["href"] for each in shapes(picture, "a")] == ["/a"]
    assert [each.text for each in shapes(picture, "text")] == [
        "a",
        "4 · 50%",
        "b",
        "1 · 12%",
    ]


def test_columns_of_a_span_stand_on_each_other() -> None:
    picture = charts.draw_stacked_column_chart(
        [("10:00", {"validated": 3, "failed": 1}), ("10:01", {})], title="t"
    )
    columns = [each for each in shapes(picture, "rect") if each.find("title") is not None]

    first, second = columns
    assert float(second.attrib["y"]) + float(second.attrib["height"]) == float(first.attrib["y"])
    assert [each.findtext("title") for each in columns] == ["10:00: 3 validated", "10:00: 1 failed"]


def test_axes_have_lines_at_none_half_and_all_and_whole_numbers() -> None:
    for picture in (
        charts.draw_stacked_column_chart([("10:00", {"validated": 3})], title="t"),
        charts.draw_histogram([("1 s", 3.0), ("2 s", 1.0)], title="t"),
    ):
        axes = [each.attrib for each in shapes(picture, "line") if each.attrib["class"] == "axis"]
        assert len({each["y1"] for each in axes}) == 3
        texts = [each.text for each in shapes(picture, "text")]
        assert {"0", "3"} <= set(texts)
        assert "1.5" not in texts
        columns = [each for each in shapes(picture, "rect") if each.find("title") is not None]
        assert min(float(each["y1"]) for each in axes) == min(float(each.attrib["y"]) for each in columns)


def test_chart_without_attempts_says_so_or_is_left_out() -> None:
    empty = charts.draw_stacked_column_chart([("10:00", {}), ("10:01", {})], title="t")
    assert [each.text for each in shapes(empty, "text")] == ["No attempts ended in this period."]
    assert charts.draw_bar_chart([], title="t") == ""


def test_cell_of_each_item_leads_to_its_attempt() -> None:
    picture = charts.draw_item_grid(
        [("failed", "line 1", "/attempts/01"), ("waiting", "line 2", "")], title="t"
    )

    assert [each.attrib["href"] for each in shapes(picture, "a")] == ["/attempts/01"]


def test_names_of_guests_are_text_in_every_picture() -> None:
    pictures = [
        charts.draw_bar_chart([ChartBar(name=HOSTILE, number=1, shown="1")], title=HOSTILE),
        charts.draw_stacked_column_chart([(HOSTILE, {"failed": 1})], title=HOSTILE),
        charts.draw_item_grid([("failed", HOSTILE, "")], title=HOSTILE),
        charts.draw_histogram([(HOSTILE, 1.0)], title=HOSTILE),
        charts.draw_run_columns([("failed", 1.0, HOSTILE)], title=HOSTILE),
    ]
    assert [len(shapes(picture, "script")) for picture in pictures] == [0] * 5
    assert all("\\x202e" in picture for picture in pictures)


def test_column_of_a_run_has_its_verdict_and_its_rows() -> None:
    picture = charts.draw_run_columns([("validated", 4, "10:00"), ("failed", None, "11:00")], title="t")

    first, second = shapes(picture, "rect")
    assert [each.attrib["class"] for each in (first, second)] == ["validated", "failed"]
    assert first.findtext("title") == "10:00: 4 rows, validated"
    assert second.findtext("title") == "11:00: failed"
    assert float(first.attrib["height"]) > float(second.attrib["height"]) > 0


def test_picture_that_is_kept_stands_alone() -> None:
    bar = ChartBar(name="a", number=1, shown="1", href="/attempts?rule=a")
    kept = charts.build_standalone_svg(charts.draw_bar_chart([bar], title="t")).decode()
    assert "<a" not in kept
    assert kept.count("</text>") == 2

    assert ET.fromstring(kept).tag == "{http://www.w3.org/2000/svg}svg"
    assert ".bar{fill:" in kept
