from __future__ import annotations

from assayd.kinds.extractor.generalization import (
    MAX_SIMILAR_TO_FIRST,
    MAX_SIMILAR_TO_SECOND,
    build_similar_paths,
)

PATH = "/data/CLIENT-ABC/2024/Q1/report.csv"


def test_one_piece_becomes_another_of_its_form() -> None:
    made = {(one.old, one.new): one.path for one in build_similar_paths([PATH])}
    assert made["2024", "2023"] == "/data/CLIENT-ABC/2023/Q1/report.csv"
    assert made["ABC", "BCD"] == "/data/CLIENT-BCD/2024/Q1/report.csv"
    assert made["csv", "dtw"] == "/data/CLIENT-ABC/2024/Q1/report.dtw"
    assert made["1", "2"] == "/data/CLIENT-ABC/2024/Q2/report.csv"


def test_a_long_piece_is_exchanged_wherever_it_is_and_a_short_one_where_it_stands_alone() -> None:
    made = {one.old: one.path for one in build_similar_paths(["/2024/01/20240115_01.csv"])}
    assert made["2024"] == "/2023/01/20230115_01.csv"
    assert made["01"] == "/2024/02/20240115_02.csv"


def test_numbers_keep_their_width_and_months_stay_months() -> None:
    made = {one.old: one.new for one in build_similar_paths(["/12/31/10/00/x"])}
    assert made == {"12": "11", "31": "30", "10": "11", "00": "01", "x": "y"}


def test_the_same_samples_give_the_same_paths_up_to_a_cap() -> None:
    samples = [f"/{'/'.join(f'a{n}b{n}' for n in range(40))}/{name}" for name in "pqr"]
    assert build_similar_paths(samples) == build_similar_paths(samples)
    assert len(build_similar_paths(samples)) == MAX_SIMILAR_TO_FIRST + MAX_SIMILAR_TO_SECOND


def test_very_long_paths_are_left_alone() -> None:
    assert build_similar_paths([f"/{'a/' * 300}b"]) == ()
