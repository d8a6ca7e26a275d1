from __future__ import annotations

import pytest

from assayd_client.cli.generate import find_name_problem, propose_name


@pytest.mark.parametrize(
    ("intent", "name"),
    [
        ("quarter folder should compute start and end month", "quarter_folder_start_end"),
        ("Total the sales by region!", "total_sales_region"),
        ("x" * 100, "x" * 40),
        ("и", "extractor"),
        ("", "extractor"),
    ],
)
def test_a_name_is_made_of_the_words_that_say_something(intent: str, name: str) -> None:
    assert propose_name(intent, "extractor") == name


@pytest.mark.parametrize("name", ["", "Months", "-a", "a b", "x" * 65, "../a"])
def test_a_name_that_the_library_would_refuse_is_one_here(name: str) -> None:
    assert find_name_problem(name)


def test_a_good_name_has_no_problem() -> None:
    assert find_name_problem("months-2_b") == ""
