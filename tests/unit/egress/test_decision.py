"""Every row of docs/egress-decisions.md and of decision_table.md, tested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assayd.egress.decision import AccessRequest, decide_access, parse_target
from assayd.findings.network_rules import TEXT_BY_RULE, NetworkRule
from assayd.model.hosts import normalize_entry
from assayd.model.policy import HttpRule, NetworkMode, NetworkPolicy

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/egress-decisions.md"
TABLE = Path(__file__).with_name("decision_table.md")
COLUMNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: a request, a profile, and the rule that must decide."""

    profile: str
    request: str
    names_itself: str
    leads_to: str
    rule: str

    def __str__(self) -> str:
        return " | ".join((self.profile, self.request, self.names_itself, self.leads_to))


def rows() -> Iterator[Row]:
    lines = [line for page in (DOCUMENT, TABLE) for line in page.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == COLUMNS and cells[-1].startswith("network."):
            yield Row(
                profile=cells[0], request=cells[1], names_itself=cells[2], leads_to=cells[3], rule=cells[4]
            )


ROWS = list(rows())


def policy_of(text: str) -> NetworkPolicy:
    """Read ``a.example{GET /below/} .b.example: 80 443``."""
    if text == "blocked":
        return NetworkPolicy()
    listed, _, ports = text.partition(": ")
    http = {}
    hosts = set()
    for entry in re.findall(r"[^\s{]+(?:\{[^}]*\})?", listed.replace("–", "")):
        host, _, rule = entry.rstrip("}").partition("{")
        hosts.add(normalize_entry(host))
        if rule:
            words = rule.split()
            paths = {word for word in words if word.startswith("/")}
            http[host] = HttpRule(methods=frozenset({*words} - paths), paths=frozenset(paths))
    return NetworkPolicy(
        mode=NetworkMode.ALLOWLIST,
        hosts=frozenset(hosts),
        ports=frozenset(int(port) for port in ports.split()) or frozenset({443}),
        http=http,
    )


def ask_of(row: Row) -> AccessRequest:
    method, _, target = row.request.partition(" ")
    addresses = tuple(row.leads_to.split()) or None
    named: str | None = {"": None, "none": ""}.get(row.names_itself, row.names_itself)
    if method != "CONNECT":
        return AccessRequest(target=parse_target(method, target), named=named, addresses=addresses)
    server_name: str | NetworkRule | None = named
    if named is not None and named.startswith("!"):
        server_name = NetworkRule(named[1:])
    return AccessRequest(target=parse_target(method, target), server_name=server_name, addresses=addresses)


def test_rows_of_the_table_are_decided_by_their_rules() -> None:
    decisions = [(row, decide_access(policy_of(row.profile), ask_of(row))) for row in ROWS]

    assert [(str(row), one.rule) for row, one in decisions if one.rule != row.rule] == []
    assert [str(row) for row, one in decisions if one.allowed is not (row.rule == "network.listed")] == []


def test_every_rule_is_in_the_document_with_an_example_or_a_reason() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")

    assert [rule for rule in NetworkRule if f"| `{rule}` |" not in text] == []
    assert len(ROWS) > 100


def test_every_refusal_says_why_and_what_to_do_instead() -> None:
    wordless = {rule for rule in NetworkRule if not (TEXT_BY_RULE[rule].reason and TEXT_BY_RULE[rule].hint)}

    assert wordless == {NetworkRule.LISTED}


def test_only_public_addresses_of_a_name_may_be_connected_to_in_the_order_given() -> None:
    target = parse_target("CONNECT", "a.example:443")
    addresses = ("10.0.0.1", "93.184.215.14", "::1", "1.1.1.1")

    decision = decide_access(policy_of("a.example"), AccessRequest(target=target, addresses=addresses))

    assert decision.addresses == ("93.184.215.14", "1.1.1.1")


def test_which_addresses_are_public_is_a_parameter() -> None:
    ask = AccessRequest(target=parse_target("CONNECT", "a.example:443"), addresses=("203.0.113.7",))

    assert not decide_access(policy_of("a.example"), ask).allowed
    assert decide_access(
        policy_of("a.example"), ask, lambda address: address.startswith("203.0.113.")
    ).allowed
