"""``[commands]``: how lists are read, merged and tightened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.errors import RequestError
from assayd.model.policy import CommandPolicy, ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, describe_policy, load_policies, merge_policies, tighten_policy
from assayd.tomlfile import FileError

Load = Callable[..., PolicySet]
TABLE = """[commands]
allowed = ["cat", "sort"]
blocked = ["rm"]
builtins = ["echo", "[", ":"]
protected = ["PATH", "LD_*"]
[commands.options]
sort = ["-o", "--output"]
"""


def policy(**lists: object) -> ExecutionPolicy:
    return ExecutionPolicy(name="p", commands=CommandPolicy(**lists))  # type: ignore[arg-type]


def test_commands_of_a_profile_are_read(load: Load) -> None:
    commands = load(a=TABLE).get("a").commands
    assert commands.allowed == {"cat", "sort"}
    assert commands.options == {"sort": {"-o", "--output"}}
    assert commands.protects("LD_PRELOAD")
    assert not commands.protects("LDAP")
    assert not commands.protects("PATHS")


def test_profile_without_the_table_allows_no_command(load: Load) -> None:
    assert load(a="").get("a").commands == CommandPolicy()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('allowed = ["/bin/rm"]', "isn't a command name"),
        ('allowed = "cat"', "must be a list"),
        ('allow = ["cat"]', r"unknown key \(did you mean allowed\?\)"),
        ('protected = ["*"]', "isn't a variable name"),
        ('options = { sort = ["o"] }', "isn't an option"),
        ('options = { sort = ["--output=x"] }', "isn't an option"),
    ],
)
def test_mistake_is_told_with_its_line(load: Load, line: str, message: str) -> None:
    with pytest.raises(FileError, match=rf"a\.toml:3: \[commands.*{message}"):
        load(a=f"[commands]\n# which\n{line}\n")


def test_child_adds_to_what_it_extends_and_what_is_refused_stays_refused(load: Load) -> None:
    child = 'extends = "a"\n[commands]\nallowed = ["rm", "tr"]\n[commands.options]\nsort = ["-T"]\n'
    commands = load(a=TABLE, b=child).get("b").commands
    assert commands.allowed == {"cat", "sort", "rm", "tr"}
    assert commands.blocked == {"rm"}
    assert commands.options == {"sort": {"-o", "--output", "-T"}}


def test_merge_is_a_union_in_either_order() -> None:
    one = policy(allowed=frozenset({"cat"}), options={"sort": frozenset({"-o"})})
    two = policy(blocked=frozenset({"rm"}), protected=frozenset({"PATH"}))
    assert merge_policies(one, two).digest == merge_policies(two, one).digest
    assert merge_policies(one, two).commands.options == {"sort": {"-o"}}


def test_digest_follows_the_commands() -> None:
    assert (
        merge_policies(policy(), policy()).digest
        != merge_policies(policy(), policy(allowed=frozenset({"cat"}))).digest
    )


def test_request_takes_commands_away() -> None:
    shipped = load_policies([get_shared_data_path("policies")]).get("pipeline")
    overrides = {"commands": {"allowed": ["cat"], "builtins": ["echo", "["], "blocked": ["sort"]}}
    tightened = tighten_policy(shipped, overrides).commands
    assert (tightened.allowed, tightened.builtins) == ({"cat"}, {"echo", "["})
    assert tightened.blocked == shipped.commands.blocked | {"sort"}


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ({"allowed": ["rm"]}, "override.wider"),
        ({"builtins": ["eval"]}, "override.wider"),
        ({"protected": []}, "override.unknown"),
        ({"allowed": "cat"}, "override.type"),
    ],
)
def test_request_that_widens_is_refused(table: dict[str, object], code: str) -> None:
    shipped = load_policies([get_shared_data_path("policies")]).get("pipeline")
    with pytest.raises(RequestError) as caught:
        tighten_policy(shipped, {"commands": table})
    assert caught.value.code == code


def test_shipped_lists_are_the_seeds_and_are_shown() -> None:
    shipped = load_policies([get_shared_data_path("policies")]).get("pipeline")
    seed = {
        "awk", "cat", "cp", "curl", "cut", "date", "echo", "grep", "head", "mv", "sed", "sort", "tail",
        "uniq", "wc",
    }  # fmt: skip
    refused = {
        "chmod", "chown", "dd", "format", "kill", "mkfs", "nc", "reboot", "rm", "shutdown", "ssh", "su",
        "sudo", "telnet", "wget",
    }  # fmt: skip
    assert shipped.commands.allowed > seed
    assert shipped.commands.blocked == refused
    assert not shipped.commands.allowed & {"bash", "sh", "perl", "python3", "sqlite3", "ln", "exec"}
    shown = describe_policy(shipped)["commands"]
    assert isinstance(shown, dict)
    assert shown["blocked"] == sorted(refused)
