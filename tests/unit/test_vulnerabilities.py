import pytest

from assayd.vulnerabilities import find_known_vulnerabilities


@pytest.mark.parametrize(
    ("version", "count"),
    [
        ("1.0.0-rc5", 2),
        ("1.1.5+ds1", 2),
        ("1.1.12", 1),
        ("1.2.7", 1),
        ("1.2.8", 0),
        ("v1.3.2", 1),
        ("1.3.3", 0),
        ("1.4.0", 0),
        ("2.0.0", 0),
        ("unknown", 3),
    ],
)
def test_runtime_with_published_vulnerabilities_is_a_warning(version: str, count: int) -> None:
    assert len(find_known_vulnerabilities({"runc": version})) == count


def test_other_runtime_is_not_judged_by_those_of_runc() -> None:
    assert find_known_vulnerabilities({"crun": "1.8.1"}) == ()


def test_old_crun_is_a_warning_that_names_the_program_and_its_version() -> None:
    [warning] = find_known_vulnerabilities({"crun": "0.10.4"})
    assert warning.startswith("crun 0.10.4: CVE-2019-18837")
