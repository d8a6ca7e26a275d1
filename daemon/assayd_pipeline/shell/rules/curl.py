"""Checks calls of curl, which is allowed only for the hosts that the policy opens.

curl https://a.example/x                     curl.no_network   (without an allowlist)
curl https://a.example/x || cat data/x       curl.falls_back   (a warning)
curl https://other.example/x                 curl.url
curl "$url"                                  curl.url
curl https://ruled.example/                  curl.url          (listed with paths: plain HTTP only)
curl -o /etc/x https://a.example/x           path.outside

The relay checks each access again at run time, by host, port and path. A step has no other network access,
regardless of curl's options.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assayd.model.policy import HttpRule, NetworkMode
from assayd_pipeline.shell.parse.options import ArgumentValue, OptionSyntax, ShellOption, parse_arguments
from assayd_pipeline.shell.parse.resolve import Invocation
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import is_known
from assayd_pipeline.shell.rules.paths import PathUse, judge_path

SYNTAX = OptionSyntax(
    short="A:d:e:H:K:m:o:r:T:u:w:X:x:",
    long="cacert connect-timeout config data data-ascii data-binary data-raw data-urlencode header json "
    "max-filesize max-redirs max-time output output-dir proxy range referer request resolve retry "
    "retry-delay retry-max-time speed-limit speed-time unix-socket upload-file url url-query user "
    "user-agent write-out",
)
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>[0-9]+))?(?P<rest>[/?#].*)?", re.DOTALL
)
_PORTS = {"http": 80, "https": 443}


def check_curl(script: ParsedScript, call: Invocation, arguments: Sequence[ArgumentValue]) -> None:
    """Check a call of curl."""
    if script.network.mode is NetworkMode.BLOCKED or not script.network.hosts:
        _report_no_network(script, call)
        return
    parsed = parse_arguments(SYNTAX, arguments)
    for option in parsed.options:
        _check_file(script, option)
    urls = [option.value for option in parsed.list_options("--url") if option.value is not None]
    for url in (*parsed.operands, *urls):
        _check_url(script, url)


def _report_no_network(script: ParsedScript, call: Invocation) -> None:
    """Report that the network is unavailable, with a warning if the script handles the failure."""
    message = "curl can't reach any host: the policy allows none."
    if _has_fallback(script, call):
        words = f"{message} The fallback command runs instead."
        script.add_warning(call.word, "curl.falls_back", words, "Remove curl, and use only the fallback.")
        return
    suggestion = "The network is blocked. Submit the data as files under data/."
    script.error(call.word, "curl.no_network", message, suggestion)


def _has_fallback(script: ParsedScript, call: Invocation) -> bool:
    """Return whether a script continues after a command fails: ``curl … || cat f``, ``if curl …; then``."""
    for node in script.source.nodes:
        if node.kind == "BinaryCmd" and node.text("Op") == "||":
            tried = [node.node("X")]
        elif node.kind in {"IfClause", "WhileClause"}:
            tried = list(node.nodes("Cond"))
        else:
            continue
        if any(each is not None and each.start <= call.word.start < each.end for each in tried):
            return True
    return False


def _check_file(script: ParsedScript, option: ShellOption) -> None:
    value = option.value.value if option.value is not None else ""
    if option.name in {"-o", "--output", "--output-dir"} and value != "-":
        judge_path(script, option.node, value, PathUse.WRITES, f"curl {option.name}")


def _check_url(script: ParsedScript, url: ArgumentValue) -> None:
    found = _URL.fullmatch(url.value)
    network = script.network
    if found is None:
        message = f"The target of curl is unknown before the run: {script.written(url.node)}."
        suggestion = "Write the scheme and host literally, https://host/; only the rest can vary."
        script.error(url.node, "curl.url", message, suggestion)
        return
    host = found["host"].lower().rstrip(".")
    port = int(found["port"] or _PORTS[found["scheme"]])
    rest = found["rest"] or "/"
    rules = list(network.rules(host))
    if not rules:
        allowed = ", ".join(sorted(network.hosts))
        script.error(url.node, "curl.url", f"The host {host} isn't allowed.", f"Use one of: {allowed}.")
    elif found["scheme"] == "https" and None not in rules:
        message = f"The host {host} is allowed over plain HTTP only, because its paths are checked."
        script.error(url.node, "curl.url", message, f"Write http://{host}/….")
    elif port not in network.ports:
        ports = ", ".join(str(each) for each in sorted(network.ports))
        script.error(url.node, "curl.url", f"Port {port} isn't allowed.", f"Use one of: {ports}.")
    elif is_known(rest) and not any(_allows_path(rule, rest) for rule in rules):
        paths = ", ".join(sorted(path for rule in rules if rule is not None for path in rule.paths))
        message = f"The path isn't allowed on {host}."
        script.error(url.node, "curl.url", message, f"Use one of: {paths}.")


def _allows_path(rule: HttpRule | None, rest: str) -> bool:
    path = re.split("[?#]", rest, maxsplit=1)[0]
    return rule is None or rule.allows_path(path or "/")
