"""The rules on find: where it begins, and that it runs, removes and writes nothing.

find /etc -name x              path.outside
find data -delete              option.refused
find data -exec cat {} +       option.refused   (where the policy lists it; the command is judged in any case)
find data -fprint /etc/x       option.refused, path.outside
"""

from __future__ import annotations

from collections.abc import Sequence

from assayd.static.shell.parse.options import ArgumentValue
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.rules.paths import PathUse, judge_path

_WRITES = frozenset(("-fprint", "-fprint0", "-fprintf", "-fls"))
_READS = frozenset(("-newer", "-anewer", "-cnewer", "-samefile", "-files0-from"))
_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_LOOP = (
    "Use a loop: find … -print0 | while IFS= read -r -d '' file; do …; done, or find … -print0 | xargs -0 …."
)
_FREE = frozenset(("-H", "-L", "-P", "--"))


def check(script: ParsedScript, arguments: Sequence[ArgumentValue]) -> None:
    """Judge the arguments of find."""
    refused = script.commands.options.get("find", frozenset())
    starting = True
    for index, argument in enumerate(arguments):
        text = argument.value
        starting = starting and (text in _FREE or not text.startswith(("-", "(", "!", ",")))
        if starting and text not in _FREE:
            judge_path(script, argument.node, text, PathUse.READS, "find")
        elif text == "-delete" or text in refused:
            suggestion = (
                _LOOP if text in _RUNS else "Leave it out: the directory is thrown away after the run."
            )
            suggestion = "Write with > instead: find … > tmp/found." if text in _WRITES else suggestion
            script.error(argument.node, "option.refused", f"find may not be used with {text}.", suggestion)
        if text in _WRITES | _READS and index + 1 < len(arguments):
            use = PathUse.WRITES if text in _WRITES else PathUse.READS
            judge_path(script, argument.node, arguments[index + 1].value, use, f"find {text}")
