"""The rules on redirections: only inside the sandbox directory, to the null device and to open descriptors.

ls > /etc/x             path.outside
ls < ../x               path.outside
ls > /dev/tcp/h/80      redirect.network
ls > "$out"             path.undecided   (a warning, when $out is not known)
ls >& "$fd"             path.undecided   (a warning)
"""

from __future__ import annotations

import re

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.words import arguments_of, values_of
from assayd.static.shell.rules.assignments import check_text
from assayd.static.shell.rules.paths import PathUse, judge_path

_DESCRIPTOR = re.compile(r"[0-9\x01]*-?")
_TEXTS = frozenset(("<<", "<<-", "<<<"))
_READS = frozenset(("<", "<&"))


def check_redirection(script: ParsedScript, node: Node) -> None:
    """Judge one redirection."""
    operator, word = node.text("Op"), node.node("Word")
    if operator == "<<<" and word is not None:
        for value in values_of(word, script.known):
            check_text(script, word, value)
    if word is None or operator in _TEXTS:
        return
    written = operator not in _READS
    for target in arguments_of(word, script.known):
        for value in target.values:
            if operator in {">&", "<&"} and _DESCRIPTOR.fullmatch(value):
                continue
            judge_path(script, word, value, PathUse.WRITES if written else PathUse.READS, operator)
