"""Checks the arguments of tools: refused options, paths that are read or written, and hosts of curl.

Checks the arguments of tools: options that the policy refuses, and paths that are read or written.

sort --compress-prog=sh f     option.refused
sort --$x f                   option.dynamic
sort $options f               argument.undecided   (a warning)
sort -o/etc/x f               path.outside
cp data/a /etc/a              path.outside
date 01010000                 option.refused
find data -delete             option.refused
find /etc -name x             path.outside
jq . /etc/x                   path.outside

`TOOLS` describes only the options and operands that affect reading and writing. Each operand of an unlisted
command counts as a path that the command reads; the 5 of `head -n 5` is then a path without effect.

Checks calls of curl, which is allowed only for the hosts that the policy opens.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assayd.model.policy import HttpRule, NetworkMode
from assayd_pipeline.shell.parse.resolve import (
    PREFIXES,
    ArgumentValue,
    Invocation,
    OptionSyntax,
    ParsedArguments,
    ShellOption,
    count_skipped_words,
    parse_arguments,
)
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import (
    ANY,
    HOME,
    MAX_VALUES,
    CommandArgument,
    evaluate_arguments,
    is_known,
    join_literal_pieces,
)
from assayd_pipeline.shell.rules import programs
from assayd_pipeline.shell.rules.builtins import check_name
from assayd_pipeline.shell.rules.paths import PathUse, check_path

CURL_SYNTAX = OptionSyntax(
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
    """Check the network access, the files and the URLs of a call of curl."""
    if script.network.mode is NetworkMode.BLOCKED or not script.network.hosts:
        _report_no_network(script, call)
        return
    parsed = parse_arguments(CURL_SYNTAX, arguments)
    for option in parsed.options:
        _check_file(script, option)
    urls = [option.value for option in parsed.list_options("--url") if option.value is not None]
    for url in (*parsed.operands, *urls):
        _check_url(script, url)


def _report_no_network(script: ParsedScript, call: Invocation) -> None:
    """Report that curl can't reach any host, as a warning if the script handles the failure."""
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
        check_path(script, option.node, value, PathUse.WRITES, f"curl {option.name}")


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


class OperandRole(StrEnum):
    """The meaning of a tool's operands: text, patterns, or files to read or write."""

    FILES = "files"
    """Files to read."""
    TEXT = "text"
    """Strings: no operand is a path."""
    LAST_WRITTEN = "last_written"
    """Files; the last one is written."""
    SECOND_WRITTEN = "second_written"
    """A file to read, and one to write."""
    PATTERN_FIRST = "pattern_first"
    """A pattern, unless an option supplied it, then files."""
    ALL_WRITTEN = "all_written"
    """Files to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The options and operands of a tool.

    `reads` and `writes` contain the options whose value is a path. `instead` contains the options that
    replace a special operand: the pattern of grep, the target folder of cp.
    """

    syntax: OptionSyntax
    operands: OperandRole = OperandRole.FILES
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    instead: frozenset[str] = frozenset()


def _build_tool(
    short: str = "",
    long: str = "",
    *,
    operands: OperandRole = OperandRole.FILES,
    reads: str = "",
    writes: str = "",
    instead: str = "",
) -> Tool:
    return Tool(
        syntax=OptionSyntax(short=short, long=long),
        operands=operands,
        reads=frozenset(reads.split()),
        writes=frozenset(writes.split()),
        instead=frozenset(instead.split()),
    )


def _text(short: str = "", long: str = "", *, reads: str = "") -> Tool:
    return _build_tool(short, long, operands=OperandRole.TEXT, reads=reads)


def _build_writing_tool(short: str = "", long: str = "", *, reads: str = "", writes: str = "") -> Tool:
    return _build_tool(short, long, operands=OperandRole.ALL_WRITTEN, reads=reads, writes=writes)


_GREP_TOOL = _build_tool(
    "A:B:C:D:d:e:f:m:X:",
    "after-context before-context binary? binary-files context devices directories exclude exclude-dir "
    "exclude-from file group-separator include label max-count regexp",
    operands=OperandRole.PATTERN_FIRST,
    reads="-f --file --exclude-from",
    instead="-e --regexp -f --file",
)
_COPY = _build_tool(
    "S:t:",
    "no-preserve sparse suffix target-directory",
    operands=OperandRole.LAST_WRITTEN,
    writes="-t --target-directory",
    instead="-t --target-directory",
)
_TEXT_ONLY = (
    "dd", "dirname", "echo", "expr", "factor", "false", "id", "printenv", "printf", "pwd", "sleep", "test",
    "tr", "true", "uname", "whoami", "yes",
)  # fmt: skip

TOOLS: Mapping[str, Tool] = {
    **dict.fromkeys(_TEXT_ONLY, _text()),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP_TOOL),
    **dict.fromkeys(("cp", "mv", "ln"), _COPY),
    "basename": _text("s:", "suffix"),
    "column": _build_tool(
        "c:i:l:n:o:p:r:s:E:H:N:O:R:T:W:",
        "columns output-separator output-width separator table? table-columns table-columns-limit "
        "table-hide table-name table-noextreme table-order table-right table-truncate table-wrap tree "
        "tree-id tree-parent",
    ),
    "comm": _build_tool("", "output-delimiter"),
    "cut": _build_tool("b:c:d:f:", "bytes characters delimiter fields output-delimiter"),
    "date": _text("d:f:I::r:s:", "date file reference rfc-3339 set", reads="-f --file -r --reference"),
    "diff": _build_tool(
        "C:D:F:I:L:S:U:W:x:X:",
        "changed-group-format exclude exclude-from from-file horizon-lines ifdef ignore-matching-lines label "
        "line-format new-group-format new-line-format old-group-format old-line-format palette "
        "show-function-line starting-file tabsize to-file unchanged-group-format unchanged-line-format width",
        reads="-X --exclude-from --from-file --to-file",
    ),
    "getopt": _text("l:n:o:s:", "longoptions name options shell"),
    "join": _build_tool("a:e:j:o:t:v:1:2:"),
    "mkdir": _build_writing_tool("m:", "mode"),
    "mktemp": _build_writing_tool("p:", "suffix", writes="-p --tmpdir"),
    "paste": _build_tool("d:", "delimiters"),
    "rmdir": _build_writing_tool(),
    "seq": _text("f:s:", "format separator"),
    "shuf": _build_tool(
        "i:n:o:",
        "head-count input-range output random-source",
        reads="--random-source",
        writes="-o --output",
    ),
    "sort": _build_tool(
        "k:o:S:t:T:y:",
        "batch-size buffer-size compress-program field-separator files0-from key output parallel "
        "random-source sort temporary-directory",
        reads="--random-source",
        writes="-o --output -T --temporary-directory",
    ),
    "split": _build_tool(
        "a:b:l:n:t:C:",
        "additional-suffix bytes filter line-bytes lines number separator suffix-length",
        operands=OperandRole.SECOND_WRITTEN,
    ),
    "tac": _build_tool("s:", "separator"),
    "tail": _build_tool("c:n:s:", "bytes lines max-unchanged-stats pid sleep-interval"),
    "tee": _build_writing_tool(),
    "touch": _build_writing_tool("d:r:t:", "date reference time", reads="-r --reference"),
    "truncate": _build_writing_tool("r:s:", "reference size", reads="-r --reference"),
    "uniq": _build_tool("f:s:w:", "check-chars skip-chars skip-fields", operands=OperandRole.SECOND_WRITTEN),
    "wc": _build_tool("", "files0-from total"),
}

AWK = Tool(
    syntax=OptionSyntax(
        short="d::D::e:E:F:f:i:l:L::o::p::v:W;",
        long="assign exec field-separator file include load source",
        ordered=True,
    )
)
SED = _build_tool("e:f:i::l:V:", "expression file line-length")
UNKNOWN = _build_tool()
"""The entry for a command that isn't in `TOOLS`."""


def check_tool(script: ParsedScript, call: Invocation) -> None:
    """Check the options and paths of a call of an allowed tool."""
    written = [one for word in call.arguments for one in evaluate_arguments(word, script.known)]
    tool = {"awk": AWK, "sed": SED}.get(call.name) or TOOLS.get(call.name, UNKNOWN)
    refused = script.commands.options.get(call.name, frozenset())
    for arguments in _iter_argument_alternatives([*call.leading, *written]):
        parsed = parse_arguments(tool.syntax, arguments, refused)
        if refused:
            _check_options(script, call.name, parsed, arguments)
        match call.name:
            case "awk":
                programs.check_awk(script, call, parsed)
            case "sed":
                programs.check_sed(script, parsed)
            case "curl":
                check_curl(script, call, arguments)
            case "find":
                _check_find(script, arguments)
            case "jq":
                _check_absolute(script, arguments, call.name)
            case prefix if prefix in PREFIXES:
                _check_prefix(script, call)
            case _:
                _check_paths(script, call.name, tool, parsed)


def _iter_argument_alternatives(arguments: Sequence[CommandArgument]) -> Iterator[list[ArgumentValue]]:
    """Yield the arguments with their first values, then with their second values, and so on."""
    most = min(max((len(one.values) for one in arguments), default=1), MAX_VALUES)
    for index in range(most):
        yield [
            ArgumentValue(value=one.values[min(index, len(one.values) - 1)], node=one.node, loose=one.loose)
            for one in arguments
        ]


def _check_options(
    script: ParsedScript, name: str, parsed: ParsedArguments, arguments: Sequence[ArgumentValue]
) -> None:
    for option in parsed.list_options(*script.commands.options[name]):
        _report_option(script, name, option)
    values = {id(option.value) for option in parsed.options if option.value is not None}
    for argument in arguments:
        if id(argument) in values:
            continue
        if argument.value == "--":
            break
        if argument.value.startswith("-") and argument.value.lstrip("-").startswith(ANY):
            message = f"The option passed to {name} is unknown before the run."
            script.error(argument.node, "option.dynamic", message, "Write options literally.")
        elif argument.value == ANY and argument.loose:
            message = f"The arguments of {name} may be options: {script.written(argument.node)}."
            suggestion = 'Quote it: "$name", or write -- before it.'
            script.add_warning(argument.node, "argument.undecided", message, suggestion)


def _report_option(script: ParsedScript, name: str, option: ShellOption) -> None:
    message = f"{name} isn't allowed with {option.name}."
    suggestion = _HINT_BY_OPTION.get(
        (name, option.name.lstrip("-")[:1].lower()), f"Use {name} without {option.name}."
    )
    script.error(option.node, "option.refused", message, suggestion)


_HINT_BY_OPTION = {
    ("awk", "f"): "Write the program in single quotes: awk '{ … }' file.",
    ("sed", "f"): "Write the commands in single quotes: sed -e '…' -e '…' file.",
    ("tail", "f"): "It never ends: use tail -n.",
}


def _check_paths(script: ParsedScript, name: str, tool: Tool, parsed: ParsedArguments) -> None:
    for option in parsed.options:
        if option.value is not None and option.name in tool.writes | tool.reads:
            use = PathUse.WRITES if option.name in tool.writes else PathUse.READS
            check_path(script, option.node, option.value.value, use, f"{name} {option.name}")
    if name == "date":
        _check_date(script, parsed)
    for operand, written in _iter_path_operands(tool, parsed):
        if operand.value != "-":
            use = PathUse.WRITES if written else PathUse.READS
            check_path(script, operand.node, operand.value, use, name)


def _iter_path_operands(tool: Tool, parsed: ParsedArguments) -> Iterator[tuple[ArgumentValue, bool]]:
    """Yield the operands that are paths, and whether each path is written."""
    operands = parsed.operands
    replaced = bool(parsed.list_options(*tool.instead))
    for index, operand in enumerate(operands):
        match tool.operands:
            case OperandRole.TEXT:
                return
            case OperandRole.PATTERN_FIRST if index == 0 and not replaced:
                continue
            case OperandRole.ALL_WRITTEN:
                yield operand, True
            case OperandRole.LAST_WRITTEN:
                yield operand, index == len(operands) - 1 and not replaced
            case OperandRole.SECOND_WRITTEN:
                yield operand, index == 1
            case _:
                yield operand, False


def _check_date(script: ParsedScript, parsed: ParsedArguments) -> None:
    for operand in parsed.operands:
        if not operand.value.startswith(("+", ANY, "%")):
            message = f"date with {script.written(operand.node)} sets the clock."
            suggestion = "Write a format that begins with +, e.g. date +%F; parse a date with -d."
            script.error(operand.node, "option.refused", message, suggestion)


def _check_find(script: ParsedScript, arguments: Sequence[ArgumentValue]) -> None:
    """Check the start folders and the output files of `find`, and reject certain tests and actions."""
    refused = script.commands.options.get("find", frozenset())
    for argument in arguments:
        text = argument.value
        if text in refused:
            suggestion = "Remove it: the directory is deleted after the run."
            if text.startswith(("-exec", "-ok")):
                suggestion = "Use a loop: find … -print0 | while IFS= read -r -d '' file; do …; done, or "
                suggestion += "find … -print0 | xargs -0 …."
            elif text.startswith("-f"):
                suggestion = "Write with > instead: find … > tmp/found."
            script.error(argument.node, "option.refused", f"find isn't allowed with {text}.", suggestion)
    _check_absolute(script, arguments, "find")


def _check_absolute(script: ParsedScript, arguments: Sequence[ArgumentValue], name: str) -> None:
    """Check all arguments that begin like a path: with ``/``, ``../``, ``~`` or ``data/``."""
    for argument in arguments:
        if argument.value.startswith(("/", "../", HOME, "data/")):
            check_path(script, argument.node, argument.value, PathUse.READS, name)


def _check_prefix(script: ParsedScript, call: Invocation) -> None:
    """Check the variables that `env` sets. The command that `env` runs is checked elsewhere."""
    prefix = PREFIXES[call.name]
    for word in call.arguments[: count_skipped_words(prefix, call.arguments)] if prefix.assignments else ():
        if "=" in join_literal_pieces(word) and not join_literal_pieces(word).startswith("-"):
            check_name(script, word, call.name)
