"""Properties of the seccomp profile that can be checked without running it."""

import json
from collections import Counter
from typing import Any

import pytest

from assayd.package_data import get_shared_data_path

PROFILE: dict[str, Any] = json.loads(get_shared_data_path("seccomp", "container.json").read_text())
RULES: list[dict[str, Any]] = PROFILE["syscalls"]
PLAIN = [name for rule in RULES if "args" not in rule for name in rule["names"]]
WITH_ARGUMENTS = {name for rule in RULES if "args" in rule for name in rule["names"]}


def test_what_is_not_named_is_refused() -> None:
    assert (PROFILE["defaultAction"], PROFILE["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)


def test_no_table_of_another_architecture_is_let_in() -> None:
    assert all(each["subArchitectures"] == [] for each in PROFILE["archMap"])


def test_no_call_is_allowed_both_plainly_and_by_its_arguments() -> None:
    assert WITH_ARGUMENTS.isdisjoint(PLAIN)


def test_no_call_is_listed_twice_without_arguments() -> None:
    assert [name for name, count in Counter(PLAIN).items() if count > 1] == []


@pytest.mark.parametrize(
    "name",
    [
        "clone",
        "socket",
        "socketpair",
        "setsockopt",
        "fcntl",
        "prctl",
        "prlimit64",
        "personality",
        "ioctl",
        "mknod",
    ],
)
def test_call_that_is_safe_by_its_arguments_only_is_never_listed_plainly(name: str) -> None:
    assert name in WITH_ARGUMENTS


def test_every_rule_says_what_it_is_for() -> None:
    assert all(rule["comment"] for rule in RULES)
