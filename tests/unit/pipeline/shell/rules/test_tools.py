"""Files that tools read and write: parsing of options, following of values, tools that aren't shipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.model.policy import ExecutionPolicy, HttpRule, NetworkMode, NetworkPolicy
from assayd_pipeline.shell import ShellCheck, check_script
from assayd_pipeline.shell.parse.resolve import ArgumentValue, OptionSyntax, parse_arguments
from assayd_pipeline.shell.parse.source import parse_source
from assayd_pipeline.shell.parse.words import (
    ANY,
    HOME,
    NUMBER,
    KnownValues,
    evaluate_arguments,
    find_settings,
)
from assayd_pipeline.shell.rules.paths import PathLocation, locate_path

Check = Callable[[str], ShellCheck]


def rules(found: ShellCheck) -> set[str]:
    return {finding.rule for finding in found.findings}


def values(script: str) -> list[tuple[str, ...]]:
    """Return the values of the last command's arguments."""
    source = parse_source(script)
    root = source.root
    assert root is not None
    call = root.nodes("Stmts")[-1].node("Cmd")
    assert call is not None
    known = KnownValues(find_settings(source.nodes))
    return [one.values for word in call.nodes("Args")[1:] for one in evaluate_arguments(word, known)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("c a 'b c' \"d\"\\ e", [("a",), ("b c",), ("d e",)]),
        ("c $'a\\tb\\''", [("a\tb'",)]),
        ("c ~/x a~", [(HOME + "/x",), ("a~",)]),
        ("x=1; c $x \"$x\" $y ${x}2", [("1",), ("1",), (ANY,), ("12",)]),
        ("x=a; x=b; c \"$x\"", [("a", "b")]),
        ("x='a b'; c $x \"$x\"", [("a",), ("b",), ("a b",)]),
        ("for x in a b; do :; done; c $x", [("a", "b")]),
        ("read x; c $x", [(ANY,)]),
        ("x=$x; c $x", [(ANY,)]),
        ("x=$(y); c \"a$x\" $((1)) $? ${#x}", [("a" + ANY,), (NUMBER,), (NUMBER,), (NUMBER,)]),
        ("x=a/b.c; c ${x%.c} ${x##*/} ${x%/*}", [("a/" + ANY,), (ANY,), ("a/" + ANY,)]),
        ("c ${x:-y} ${x:+z}", [(ANY, "y"), ("", "z")]),
        ("a=(p 'q r'); c \"${a[@]}\" \"${a[0]}\"", [("p",), ("q r",), ("p", "q r")]),
        ("c <(ls) $PWD", [("/dev/fd/" + NUMBER,), ("/sandbox",)]),
    ],
)  # fmt: skip
def test_words_come_to_what_the_shell_makes_of_them(script: str, expected: list[tuple[str, ...]]) -> None:
    assert values(script) == expected


@pytest.mark.parametrize(
    ("given_", "options", "operands"),
    [
        ("a -o x b", [("-o", "x")], ["a", "b"]),
        ("-ox", [("-o", "x")], []),
        ("-uox", [("-u", None), ("-o", "x")], []),
        ("-i.bak a", [("-i", ".bak")], ["a"]),
        ("-i a", [("-i", None)], ["a"]),
        ("--output=x --out y", [("--output", "x"), ("--output", "y")], []),
        ("--colour a", [("--colour", None)], ["a"]),
        ("-- -o x", [], ["-o", "x"]),
        ("- -u", [("-u", None)], ["-"]),
        ("-o", [("-o", None)], []),
    ],
)
def test_options_are_taken_apart_as_getopt_does(
    given_: str, options: list[tuple[str, str | None]], operands: list[str]
) -> None:
    syntax = OptionSyntax(short="o:i::", long="output")
    node = parse_source("x").root
    assert node is not None
    parsed = parse_arguments(syntax, [ArgumentValue(value=value, node=node) for value in given_.split()])
    assert [(o.name, o.value.value if o.value else None) for o in parsed.options] == options
    assert [operand.value for operand in parsed.operands] == operands


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("data/x", PathLocation.INSIDE),
        ("data/../x", PathLocation.INSIDE),
        ("/sandbox/x", PathLocation.INSIDE),
        ("tmp/" + ANY, PathLocation.INSIDE),
        ("", PathLocation.INSIDE),
        ("/dev/null", PathLocation.DEVICE),
        ("/dev/fd/3", PathLocation.DEVICE),
        (ANY + "/x", PathLocation.UNDECIDED),
        ("..", PathLocation.OUTSIDE),
        ("a/../../b", PathLocation.OUTSIDE),
        ("/sandbox/../x", PathLocation.OUTSIDE),
        ("/sandboxes", PathLocation.OUTSIDE),
        (HOME, PathLocation.INSIDE),
        (HOME + "/x", PathLocation.INSIDE),
        (HOME + "/../x", PathLocation.OUTSIDE),
        (HOME + "root/x", PathLocation.OUTSIDE),
        ("/dev/tcp/h/1", PathLocation.NETWORK),
        ("//dev//udp/h", PathLocation.NETWORK),
    ],
)
def test_paths_lead_where_they_lead(path: str, place: PathLocation) -> None:
    assert locate_path(path) is place


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("env rm x", "command.blocked"),
        ("env -i A=1 -u B rm x", "command.blocked"),
        ("env PATH=x cat y", "variable.protected"),
        ("nohup rm x", "command.blocked"),
        ("nice -n 5 rm x", "command.blocked"),
        ("timeout -k 1 5s rm x", "command.blocked"),
        ("timeout --signal KILL 5 rm x", "command.blocked"),
        ("timeout 5 env nohup rm x", "command.blocked"),
        ("cat x | xargs rm", "command.blocked"),
        ("cat x | xargs -n 1 -I {} rm {}", "command.blocked"),
        ("cat x | xargs -0 $y", "command.dynamic"),
        ("find data -exec rm {} +", "command.blocked"),
        ("find data -name x -execdir rm {} \\;", "command.blocked"),
        ("find data -delete", "option.refused"),
        ("find data -fprint /etc/x", "path.outside"),
        ("find /etc -name x", "path.outside"),
        ("tee /etc/x", "path.outside"),
        ("tee -a tmp/x /etc/y", "path.outside"),
        ("mkdir -p /etc/x", "path.outside"),
        ("touch ../x", "path.outside"),
        ("ln -s /etc/passwd data/x", "path.outside"),
        ("ln -s x /etc/y", "path.outside"),
        ("jq . /etc/x", "path.outside"),
    ],
)
def test_tools_that_an_operator_adds_have_their_rules(check_wide: Check, script: str, rule: str) -> None:
    assert rule in rules(check_wide(script))


@pytest.mark.parametrize(
    "script",
    [
        "env -i LC_ALL=C sort data/x",
        "timeout 5s awk 1 data/x",
        "cat data/x | xargs -n 1 echo",
        "find data -name '*.csv' -type f -newer data/x",
        "cat data/x | tee tmp/y | tr a-z A-Z",
        "mkdir -p tmp/a/b && touch tmp/a/b/c",
        "ln -s data/x tmp/y",
        "dd if=data/x of=tmp/y bs=1k",
        "jq .a data/x",
    ],
)
def test_tools_that_an_operator_adds_do_their_work(check_wide: Check, script: str) -> None:
    assert check_wide(script).findings == ()


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("curl https://closed.example/x", "curl.url"),
        ("curl open.example", "curl.url"),
        ("curl http://open.example/x", "curl.url"),
        ("curl https://open.example:8443/x", "curl.url"),
        ("curl https://user@open.example/x", "curl.url"),
        ("curl https://open.example@closed.example/x", "curl.url"),
        ("curl https://wide.example/x", "curl.url"),
        ("curl https://127.0.0.1/", "curl.url"),
        ("curl file:///etc/passwd", "curl.url"),
        ("curl \"$url\"", "curl.url"),
        ("curl https://$host/", "curl.url"),
        ("curl -s https://open.example/ --url https://closed.example/", "curl.url"),
        ("curl -o /etc/x https://open.example/", "path.outside"),
        ("curl --outp=/etc/x https://open.example/", "path.outside"),
        ("curl https://open.example/ > /etc/x", "path.outside"),
    ],
)  # fmt: skip
def test_curl_reaches_only_what_is_open(check_open: Check, script: str, rule: str) -> None:
    assert rule in rules(check_open(script))


@pytest.mark.parametrize(
    "script",
    [
        "curl -fsSL --retry 3 -o data/x.json 'https://open.example/a?b=1'",
        "curl -sS -H 'Accept: text/csv' https://a.wide.example/x | head -n 1",
        "id=5; curl -s \"https://open.example/items/$id\"",
        "curl -s \"https://open.example/$(date +%F).csv\" > tmp/x.csv",
        "curl -X POST -d @data/x -H 'A: b' https://open.example/",
        "curl -d 'a=b@c' https://OPEN.example/ -m 5 -w '%{http_code}\\n'",
    ],
)  # fmt: skip
def test_curl_fetches_what_is_open(check_open: Check, script: str) -> None:
    assert check_open(script).findings == ()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://ruled.example/v1/items?x=1", None),
        ("http://ruled.example/health", None),
        ('"http://ruled.example/v1/$id"', None),
        ("https://ruled.example/v1/items", "plain HTTP only"),
        ("http://ruled.example/admin", "path"),
        ("http://ruled.example/v1/../admin", "path"),
        ("http://ruled.example:8080/v1/", "Port 8080"),
    ],
)
def test_curl_asks_a_host_with_rules_only_for_what_they_allow(
    policy: ExecutionPolicy, address: str, words: str | None
) -> None:
    network = NetworkPolicy(
        mode=NetworkMode.ALLOWLIST,
        hosts=frozenset({"ruled.example"}),
        ports=frozenset({80, 443}),
        http={"ruled.example": HttpRule(paths=frozenset({"/health", "/v1/"}))},
    )
    found = check_script(f"curl -s {address}", policy.commands, network=network).findings
    assert [f.rule for f in found] == ([] if words is None else ["curl.url"])
    assert words is None or words in found[0].message


_QUOTED = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"]), max_size=40)


@pytest.mark.slow
@given(
    program=_QUOTED,
    tool=st.sampled_from(["awk", "sed", "sed -n -e", "awk -v x=1", "grep", "curl", "sort -k"]),
)
def test_any_program_text_is_judged(policy: ExecutionPolicy, program: str, tool: str) -> None:
    quoted = program.replace("'", "'\\''")
    found = check_script(f"{tool} '{quoted}' data/x", policy.commands)
    assert all(finding.suggestion for finding in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "awk '" + "a/b/" * 5_000 + "' f",
        "awk '/" + "[[:a:]" * 5_000 + "' f",
        "awk '/[" + "\\" * 5_000 + "' f",
        "awk '\"" + "\\a" * 5_000 + "' f",
        "awk '" + "(" * 5_000 + "' f",
        "sed '" + "s/a/b/;" * 5_000 + "' f",
        "sed 's/" + "\\" * 5_001 + "' f",
        "x='" + "[" * 12_000 + "'; ((x))",
        "x='" + "[$" * 8_000 + "'; ((x))",
        "x=a; " + "x=$x$x; " * 60 + "cat $x",
        "".join(f"x{n}=a; x{n}=${{x{n - 1}}}b; " for n in range(1, 100)) + "cat $x99",
        "echo " + "{a,b}" * 3_000,
        "echo " + "{" * 5_000,
        "cat " + "../" * 12_000,
        "x='" + "a" * 12_000 + "'; cat ${x%" + "*a" * 50 + "b}",
        "echo " + "\\" * 12_000,
        "cat " + " ".join(f"$x{n % 7}" for n in range(500)) + "; for x1 in {1..9}; do :; done",
        "curl " + "-d @" * 5_000,
        "sort " + "-" * 12_000,
        "".join(f'f{n}() {{ "$@"; }}; ' for n in range(500)) + "f1 cat x; " * 500,
        "f() { " + "shift; " * 500 + '"$@"; ' * 500 + "}; f a",
    ],
    ids=lambda script: script[:12],
)
def test_hostile_arguments_are_judged_to_the_end(check: Check, check_open: Check, script: str) -> None:
    for judge in (check, check_open):
        assert all(finding.suggestion for finding in judge(script).findings)


def test_variables_that_are_defined_by_one_another_without_end_are_refused(check: Check) -> None:
    chain = "".join(f"x{n}=${{x{n + 1}}}b\n" for n in range(2_000))
    assert rules(check(chain + "cat $x0")) == {"shell.too_deep"}


def test_advice_names_only_programs_that_the_profile_allows(policy: ExecutionPolicy) -> None:
    few = replace(policy.commands, allowed=frozenset({"grep", "sed"}))
    [usual] = check_script("python3 -c 1", policy.commands, network=policy.network).findings
    [found] = check_script("python3 -c 1", few, network=policy.network).findings

    assert "awk" in (usual.suggestion or "")
    assert "awk" not in (found.suggestion or "")
    assert "grep, sed" in (found.suggestion or "")
