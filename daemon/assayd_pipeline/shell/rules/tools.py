"""Describes the options and operands of tools as data: options with a value, and arguments that are paths.

The data covers only what affects reading and writing. The policy states which options are refused; awk,
sed, curl, find and jq have separate rules. Each operand of an unlisted command counts as a path that the
command reads; the 5 of `head -n 5` is then a path without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from assayd_pipeline.shell.parse.options import Syntax


class Operands(StrEnum):
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

    syntax: Syntax
    operands: Operands = Operands.FILES
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    instead: frozenset[str] = frozenset()


def _build_tool(
    short: str = "",
    long: str = "",
    *,
    operands: Operands = Operands.FILES,
    reads: str = "",
    writes: str = "",
    instead: str = "",
) -> Tool:
    return Tool(
        syntax=Syntax(short=short, long=long),
        operands=operands,
        reads=frozenset(reads.split()),
        writes=frozenset(writes.split()),
        instead=frozenset(instead.split()),
    )


def _text(short: str = "", long: str = "", *, reads: str = "") -> Tool:
    return _build_tool(short, long, operands=Operands.TEXT, reads=reads)


def _build_writing_tool(short: str = "", long: str = "", *, reads: str = "", writes: str = "") -> Tool:
    return _build_tool(short, long, operands=Operands.ALL_WRITTEN, reads=reads, writes=writes)


_GREP = _build_tool(
    "A:B:C:D:d:e:f:m:X:",
    "after-context before-context binary? binary-files context devices directories exclude exclude-dir "
    "exclude-from file group-separator include label max-count regexp",
    operands=Operands.PATTERN_FIRST,
    reads="-f --file --exclude-from",
    instead="-e --regexp -f --file",
)
_COPY = _build_tool(
    "S:t:",
    "no-preserve sparse suffix target-directory",
    operands=Operands.LAST_WRITTEN,
    writes="-t --target-directory",
    instead="-t --target-directory",
)
_TEXT_ONLY = (
    "dd", "dirname", "echo", "expr", "factor", "false", "id", "printenv", "printf", "pwd", "sleep", "test",
    "tr", "true", "uname", "whoami", "yes",
)  # fmt: skip

TOOLS: Mapping[str, Tool] = {
    **dict.fromkeys(_TEXT_ONLY, _text()),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
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
        operands=Operands.SECOND_WRITTEN,
    ),
    "tac": _build_tool("s:", "separator"),
    "tail": _build_tool("c:n:s:", "bytes lines max-unchanged-stats pid sleep-interval"),
    "tee": _build_writing_tool(),
    "touch": _build_writing_tool("d:r:t:", "date reference time", reads="-r --reference"),
    "truncate": _build_writing_tool("r:s:", "reference size", reads="-r --reference"),
    "uniq": _build_tool("f:s:w:", "check-chars skip-chars skip-fields", operands=Operands.SECOND_WRITTEN),
    "wc": _build_tool("", "files0-from total"),
}

AWK = Tool(
    syntax=Syntax(
        short="d::D::e:E:F:f:i:l:L::o::p::v:W;",
        long="assign exec field-separator file include load source",
        ordered=True,
    )
)
SED = _build_tool("e:f:i::l:V:", "expression file line-length")
UNKNOWN = _build_tool()
"""The entry for an unknown command."""
