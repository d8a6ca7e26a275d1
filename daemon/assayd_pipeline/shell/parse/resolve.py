r"""Resolves the commands that a script runs, and splits their arguments like `getopt_long`.

Resolves the commands that a script runs, including those that other commands and functions run.

cat f, "cat" f                  cat
/usr/lib/assayd/tools/cat f     cat
env -i LC_ALL=C sort f          env, sort
timeout -k 5 "$limit" sort f    timeout, sort
xargs -n 1 sort                 xargs, sort
find . -exec wc {} +            find, wc
x=cat; $x f                     cat
run() { "$@"; }; run sort f     run, sort
set -- sort f; "$@"             sort
c"a"t f, \cat f                 command.obscured
$x f                            command.dynamic
./cat f                         command.path

Splits the arguments of a command into options, values and operands in the same way as `getopt_long`.

Options can follow operands. Short options can be joined to each other or to their value, and long options
can be abbreviated. ``--`` ends the options. Only options with a value need an entry in a `Syntax`; all
other options are flags.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from assayd_pipeline.shell.parse.reader import ScriptNode, iter_tree
from assayd_pipeline.shell.parse.source import ShellSource
from assayd_pipeline.shell.parse.words import (
    CommandArgument,
    FunctionScopes,
    KnownValues,
    evaluate_arguments,
    get_literal_text,
    is_known,
    join_literal_pieces,
)

_LETTER_PATTERN = re.compile(r"([^:;])(::?|;)")
TOOLS = "/usr/lib/assayd/tools"
"""The only folder on PATH in the shell image."""
_PLAIN_REGEX = re.compile(r"[A-Za-z0-9_./+:@%^,=\[\]-]+")
_NAME = re.compile(r"[A-Za-z0-9_./+:@%^,=-]+|\[")
_ASSIGNMENT_REGEX = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_OLD_NICE = re.compile(r"-[0-9]+")
_FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_ALL = frozenset(('"$@"', "$@", '"${@}"', "${@}"))
_ONE = re.compile(r'"?\$\{?([1-9])\}?"?')
_BRANCHES = frozenset(("BinaryCmd", "CaseClause", "ForClause", "IfClause", "WhileClause"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentValue:
    """One possible value of an argument, and the argument's word."""

    value: str
    node: ScriptNode
    loose: bool = False


@dataclass(frozen=True, kw_only=True)
class OptionSyntax:
    """The options of a command that take a value.

    Args:
        short: as for getopt: a letter, and ``:`` if a value follows, ``::`` if it can be joined to the
            letter, ``;`` if a long option follows.
        long: names of long options, separated by spaces. One with a final ``?`` doesn't take the next
            argument as its value; it is listed if it could be mistaken for an abbreviation.
        ordered: whether the first operand ends the options.
    """

    short: str = ""
    long: str = ""
    ordered: bool = False

    @cached_property
    def short_options(self) -> dict[str, str]:
        """Return the getopt mark (``:``, ``::``, ``;`` or none) of each short option in the table."""
        return dict(_LETTER_PATTERN.findall(self.short))

    @cached_property
    def names(self) -> dict[str, bool]:
        """Return each long option, and whether the option takes the next argument as its value."""
        return {name.rstrip("?"): not name.endswith("?") for name in self.long.split()}

    def expand_abbreviation(self, name: str, others: Iterable[str] = ()) -> str:
        """Return the long option that `name` abbreviates, or `name` if it isn't an abbreviation."""
        known = [*(other[2:] for other in others if other.startswith("--")), *self.names]
        fitting = [each for each in known if each.startswith(name)]
        return name if name in known or not fitting else fitting[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOption:
    """An option, as ``-x`` or the unabbreviated ``--name``, and its value."""

    name: str
    node: ScriptNode
    value: ArgumentValue | None = None


@dataclass(slots=True, kw_only=True)
class ParsedArguments:
    """The options and operands of one command call, in order."""

    options: list[ShellOption] = field(default_factory=list)
    operands: list[ArgumentValue] = field(default_factory=list)

    def list_options(self, *names: str) -> list[ShellOption]:
        """Return the options that have one of these names, in their order."""
        return [option for option in self.options if option.name in names]


def parse_arguments(
    syntax: OptionSyntax, arguments: Sequence[ArgumentValue], others: Iterable[str] = ()
) -> ParsedArguments:
    """Split arguments into options and operands. Long options in `others` can be abbreviated too."""
    parsed, rest = ParsedArguments(), list(arguments[::-1])
    while rest:
        argument = rest.pop()
        text = argument.value
        if text == "--":
            parsed.operands += rest[::-1]
            break
        if text.startswith("--"):
            parsed.options.append(_parse_long(syntax, argument, rest, others))
        elif text.startswith("-") and len(text) > 1:
            parsed.options += _parse_short(syntax, argument, rest, others)
        else:
            parsed.operands.append(argument)
            if syntax.ordered:
                parsed.operands += rest[::-1]
                break
    return parsed


def _parse_long(
    syntax: OptionSyntax, argument: ArgumentValue, rest: list[ArgumentValue], others: Iterable[str]
) -> ShellOption:
    written, glued, text = argument.value[2:].partition("=")
    name = syntax.expand_abbreviation(written, others)
    value = ArgumentValue(value=text, node=argument.node) if glued else None
    if value is None and syntax.names.get(name) and rest:
        value = rest.pop()
    return ShellOption(name="--" + name, node=argument.node, value=value)


def _parse_short(
    syntax: OptionSyntax, argument: ArgumentValue, rest: list[ArgumentValue], others: Iterable[str]
) -> list[ShellOption]:
    found: list[ShellOption] = []
    node, letters = argument.node, argument.value[1:]
    for index, letter in enumerate(letters, 1):
        mark = syntax.short_options.get(letter)
        if mark is None:
            found.append(ShellOption(name="-" + letter, node=node))
            continue
        value = ArgumentValue(value=letters[index:], node=node) if letters[index:] else None
        if value is None and mark != "::" and rest:
            value = rest.pop()
        if mark == ";":
            long = ArgumentValue(value=f"--{value.value if value else ''}", node=node)
            return [*found, _parse_long(syntax, long, rest, others)]
        return [*found, ShellOption(name="-" + letter, node=node, value=value)]
    return found


class WordForm(StrEnum):
    """The form of a command word, which determines whether its command is known."""

    PLAIN = "plain"
    """A name or a path, perhaps with quotes or backslashes that don't change it."""
    OBSCURED = "obscured"
    """A pattern, a brace expression, or a word with a tilde."""
    DYNAMIC = "dynamic"
    """Known only at run time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A command that a script can run: the word that names the command, and its arguments.

    `leading` contains additional arguments from the value of the word: ``c="grep -c"; $c x``.
    """

    call: ScriptNode
    word: ScriptNode
    form: WordForm
    name: str
    arguments: Sequence[ScriptNode]
    prefixes: tuple[str, ...] = ()
    leading: tuple[CommandArgument, ...] = ()

    @property
    def path(self) -> bool:
        """Return whether a path names the command, except a path of one of the image's tools."""
        return "/" in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCommand:
    """A command that runs another command, with its options and the operands before the other command."""

    syntax: OptionSyntax
    operands: int = 0
    assignments: bool = False
    lookup_flags: frozenset[str] = frozenset()


PREFIXES: Mapping[str, PrefixCommand] = {
    "builtin": PrefixCommand(syntax=OptionSyntax()),
    "command": PrefixCommand(syntax=OptionSyntax(), lookup_flags=frozenset("vV")),
    "env": PrefixCommand(
        syntax=OptionSyntax(short="C:S:u:", long="chdir split-string unset"), assignments=True
    ),
    "nice": PrefixCommand(syntax=OptionSyntax(short="n:", long="adjustment")),
    "nohup": PrefixCommand(syntax=OptionSyntax()),
    "timeout": PrefixCommand(syntax=OptionSyntax(short="k:s:", long="kill-after signal"), operands=1),
    "xargs": PrefixCommand(
        syntax=OptionSyntax(
            short="a:d:E:e::I:i::L:l::n:P:s:",
            long="arg-file delimiter max-args max-chars max-procs process-slot-var",
        )
    ),
}


def list_invocations(source: ShellSource, known: KnownValues, scopes: FunctionScopes) -> list[Invocation]:
    """Return every command that a script can run, in any order."""
    written = [
        (node, words) for node in source.nodes if node.kind == "CallExpr" and (words := node.nodes("Args"))
    ]
    runners = _RunnerFunctions(source, [words for _, words in written], scopes)
    found: list[Invocation] = []
    for node, words in written:
        if runners.is_called_from(words[0]):
            continue
        for each in iter_invocations(node, words, source):
            found += _resolve_by_value(each, known) or [each]
            passed = runners.list_passed_commands(each)
            found += [
                one
                for words in passed
                for one in iter_invocations(node, words, source, (*each.prefixes, each.name))
            ]
    return found


def iter_invocations(
    call: ScriptNode, words: Sequence[ScriptNode], source: ShellSource, prefixes: tuple[str, ...] = ()
) -> Iterator[Invocation]:
    """Yield the command that the words name, and the commands that this command runs."""
    while words:
        form, name = classify_command_word(words[0], source)
        yield Invocation(
            call=call, word=words[0], form=form, name=name, arguments=words[1:], prefixes=prefixes
        )
        if name == "find":
            for index, word in enumerate(words):
                if get_literal_text(word) in _FIND_RUNS:
                    yield from iter_invocations(call, words[index + 1 :], source, (*prefixes, name))
            return
        prefix = PREFIXES.get(name)
        if form is not WordForm.PLAIN or prefix is None:
            return
        words = words[1 + count_skipped_words(prefix, words[1:]) :]
        prefixes = (*prefixes, name)


def count_skipped_words(prefix: PrefixCommand, words: Sequence[ScriptNode]) -> int:
    """Return the number of words between a prefix command and the command that it runs.

    Return the number of all words if an option makes the prefix command only look up a command.
    """
    index, operands = 0, prefix.operands
    while index < len(words):
        text = join_literal_pieces(words[index])
        if text == "--":
            return index + 1 + operands
        if text.startswith("-") and len(text) > 1 and not _OLD_NICE.fullmatch(text):
            if prefix.lookup_flags & set(text):
                return len(words)
            index += 1 + _takes_next_word(prefix.syntax, text)
        elif _OLD_NICE.fullmatch(text) or (prefix.assignments and _ASSIGNMENT_REGEX.fullmatch(text)):
            index += 1
        elif operands:
            operands -= 1
            index += 1
        else:
            break
    return index


def _takes_next_word(syntax: OptionSyntax, text: str) -> bool:
    """Return whether the last option in a word takes the next word as its value."""
    if text.startswith("--"):
        return "=" not in text and syntax.names.get(syntax.expand_abbreviation(text[2:]), False)
    marked = next(
        (place for place, letter in enumerate(text) if place and letter in syntax.short_options), None
    )
    return marked == len(text) - 1 and syntax.short_options[text[-1]] == ":"


def classify_command_word(word: ScriptNode, source: ShellSource) -> tuple[WordForm, str]:
    """Return the form of a command word, and the command's name or, if the name is unknown, ""."""
    parts = word.nodes("Parts")
    if any(part.kind not in {"Lit", "SglQuoted", "DblQuoted"} for part in parts):
        return WordForm.DYNAMIC, ""
    text = _get_single_piece_text(parts, source, word) or _join_quoted_parts(word, source)
    if text is None:
        dynamic = any(inner.kind in {"ParamExp", "CmdSubst", "ArithmExp"} for inner in iter_tree(word))
        return (WordForm.DYNAMIC if dynamic else WordForm.OBSCURED), ""
    return WordForm.PLAIN, text.removeprefix(TOOLS + "/") if text.count("/") == TOOLS.count("/") + 1 else text


def _join_quoted_parts(word: ScriptNode, source: ShellSource) -> str | None:
    r"""Return a command's name without the quotes and backslashes in its word: ``c'a't``, ``\ls``.

    Return None if the word has none, or doesn't form a name.
    """
    text = get_literal_text(word)
    quoted = any(sign in source.written(word) for sign in "'\"\\")
    return text if quoted and text is not None and _NAME.fullmatch(text) else None


def _get_single_piece_text(parts: Sequence[ScriptNode], source: ShellSource, word: ScriptNode) -> str | None:
    """Return the text of a word that consists of one literal or quoted piece, or None."""
    written = source.written(word)
    if all(part.kind == "Lit" for part in parts):
        text = written
    elif len(parts) == 1 and not parts[0].get_flag("Dollar") and written[:1] == written[-1:]:
        text = written[1:-1]
    else:
        return None
    return text if _PLAIN_REGEX.fullmatch(text) and not ("[" in text and text not in {"[", "[["}) else None


def _resolve_by_value(call: Invocation, known: KnownValues) -> list[Invocation]:
    """Return the commands that a variable in a command word can name, or [] if any value is unknown."""
    arguments = evaluate_arguments(call.word, known) if call.form is WordForm.DYNAMIC else []
    if not arguments or any(one.loose for one in arguments):
        return []
    first, *leading = arguments
    if not all(is_known(name) and _NAME.fullmatch(name) and name not in PREFIXES for name in first.values):
        return []
    return [replace(call, form=WordForm.PLAIN, name=name, leading=tuple(leading)) for name in first.values]


class _RunnerFunctions:
    """The functions that run their arguments: ``run() { shift; "$@"; }``.

    At the top level of a script, `set --` determines ``"$@"``. A function whose number of shifts depends on
    a branch or a loop isn't analyzed.
    """

    def __init__(
        self, source: ShellSource, calls: Sequence[Sequence[ScriptNode]], scopes: FunctionScopes
    ) -> None:
        self._source, self._scopes = source, scopes
        branches = [(node.start, node.end) for node in source.nodes if node.kind in _BRANCHES]
        self._shifts: defaultdict[str, list[tuple[int, int | None]]] = defaultdict(list)
        for words in calls:
            if get_literal_text(words[0]) == "shift":
                place = words[0].start
                count = self._count_shifted(words, branches)
                self._shifts[scopes.find_function_name_at(place)].append((place, count))
        self._called = {get_literal_text(words[0]) for words in calls}
        self._passed_to_script = any(_find_set_words(words) for words in calls)
        self._runs: dict[str, set[int]] = {}
        for _ in range(3):  # A function may pass its arguments on to another function that runs them.
            for words in calls:
                self._record_runner(words)

    def _count_shifted(self, words: Sequence[ScriptNode], branches: Sequence[tuple[int, int]]) -> int | None:
        """Return the number of arguments that a call of ``shift`` removes, or None if it is uncertain."""
        count = get_literal_text(words[1]) if len(words) > 1 else "1"
        around = self._scopes.at(words[0].start)
        begin = around.start if around is not None else -1
        in_branch = any(begin < start <= words[0].start < end for start, end in branches)
        return None if in_branch or count is None or not count.isdecimal() else int(count)

    def is_called_from(self, word: ScriptNode) -> bool:
        """Return whether the command in a word is checked at each call of the surrounding function."""
        if self._find_passed_argument_index(word) is None:
            return False
        name = self._scopes.find_function_name_at(word.start)
        called = name in self._called if name else self._passed_to_script
        return called or self._source.written(word) in _ALL

    def list_passed_commands(self, call: Invocation) -> list[Sequence[ScriptNode]]:
        """Return the commands that a function runs because a call passes them as arguments."""
        name, words = call.name, call.arguments
        if call.name == "set" and not self._scopes.find_function_name_at(call.word.start):
            name, words = "", _find_set_words([call.word, *words])
        elif not name:
            return []
        passed = [words[place:] for place in self._runs.get(name, ()) if place < len(words)]
        return [each for each in passed if not self.is_called_from(each[0])]

    def _record_runner(self, words: Sequence[ScriptNode]) -> None:
        """Record that the function around a call runs one of the function's arguments."""
        name = get_literal_text(words[0])
        places = [0] if name is None else [place + 1 for place in self._runs.get(name, ())]
        for word in [words[place] for place in places if place < len(words)]:
            passed = self._find_passed_argument_index(word)
            if passed is not None:
                self._runs.setdefault(self._scopes.find_function_name_at(word.start), set()).add(passed)

    def _find_passed_argument_index(self, word: ScriptNode) -> int | None:
        """Return the index of the argument to which a word refers.

        The result is None if the word refers to no argument, or if the index is uncertain.
        """
        written = self._source.written(word)
        one = _ONE.fullmatch(written)
        if one is None and written not in _ALL:
            return None
        shifts = self._shifts.get(self._scopes.find_function_name_at(word.start), ())
        counts = [count for place, count in shifts if place < word.start]
        known = [count for count in counts if count is not None]
        before = int(one[1]) - 1 if one is not None else 0
        return before + sum(known) if len(known) == len(counts) else None


def _find_set_words(words: Sequence[ScriptNode]) -> Sequence[ScriptNode]:
    """Return the words after ``set --``, or an empty sequence for any other command."""
    texts = [get_literal_text(word) for word in words]
    return words[texts.index("--") + 1 :] if texts[:1] == ["set"] and "--" in texts else ()


def find_script_arguments(source: ShellSource, scopes: FunctionScopes) -> Sequence[ScriptNode]:
    """Return the script's own arguments, if exactly one ``set --`` sets them, otherwise an empty sequence.

    The arguments are unknown if the script shifts them or sets them twice.
    """
    calls = (words for node in source.nodes if node.kind == "CallExpr" and (words := node.nodes("Args")))
    changes = [words for words in calls if get_literal_text(words[0]) == "shift" or _find_set_words(words)]
    changes = [words for words in changes if scopes.at(words[0].start) is None]
    return _find_set_words(changes[0]) if len(changes) == 1 else ()
