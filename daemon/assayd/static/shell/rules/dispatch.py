"""Which commands run where the command word is a variable: all of its values, or what a function is given.

    x=cat; "$x" f                       cat
    run() { "$@"; }; run sort f         sort
    set -- encode a; "$@"               encode, a function
    c=(grep -c); "${c[@]}" x f          grep
    "$unknown" f                        command.dynamic

Functions are given what their calls give, so both are found together, round by round.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.resolve import Invocation, WordForm, resolve
from assayd.static.shell.parse.source import ShellSource
from assayd.static.shell.parse.variables import Known, Setting, set_through
from assayd.static.shell.parse.words import VALUES, Argument, arguments_of, literal
from assayd.static.shell.rules.parameters import CallSite, FunctionExtent, Parameters, set_by
from assayd.static.shell.rules.prefixes import PREFIXES

_ROUNDS = 5
_DEPTH = 3
_NAME = re.compile(r"[A-Za-z0-9_./+:@%^,=-]+|\[")
# Those that set variables are followed by their words, and here are values only.
_BUILTINS = frozenset((":", "[", "echo", "exit", "false", "printf", "pwd", "return", "test", "true"))
_PERHAPS = frozenset(("BinaryCmd", "CaseClause", "ForClause", "IfClause", "Subshell", "WhileClause"))
"""Kinds of nodes of which a part may be left out, or come more than once."""
_LISTS = frozenset(('"$@"', "$@", '"${@}"', "${@}"))


class Followed:
    """The calls of a script with those behind variables, and what is known then.

    A call that cannot be followed stays as it is written.
    """

    def __init__(
        self,
        source: ShellSource,
        calls: Sequence[Invocation],
        settings: Sequence[Setting],
        builtins: frozenset[str],
    ) -> None:
        self._source = source
        self._written = calls
        self._settings = settings
        self._functions = frozenset(scope.name for scope in scopes_of(source))
        self._nameable = self._functions | (builtins & _BUILTINS)
        self._builtins = builtins
        self._perhaps = [(node.start, node.end) for node in source.nodes if node.kind in _PERHAPS]
        self.calls: list[Invocation] = list(calls)
        self.known = Known(settings)
        for _ in range(_ROUNDS):
            before = [(call.word, call.name, call.leading) for call in self.calls]
            parameters = self._parameters()
            through = set_through(source.nodes, Known(settings, parameters))
            self.known = Known([*settings, *through], parameters)
            self.calls = [one for call in self._written for one in self._follow(call)]
            if before == [(call.word, call.name, call.leading) for call in self.calls]:
                return
        self.known, self.calls = Known(settings), list(calls)

    def _parameters(self) -> Parameters:
        parameters = Parameters(scopes_of(self._source), len(self._source.raw))
        for call in self.calls:
            around = parameters.scope_at(call.word.start) or ""
            match call.name:
                case "shift":
                    parameters.shift(around, call.word.start, self._count(call, parameters))
                case "eval":
                    parameters.forget(around)
                case "set" if (given := set_by(call.arguments)) is not None:
                    parameters.add(around, given)
                case name if name in self._functions:
                    parameters.add(name, CallSite(words=tuple(call.arguments), leading=tuple(call.leading)))
                case _:
                    pass
        return parameters

    def _count(self, call: Invocation, parameters: Parameters) -> int | None:
        """Return by how much a call of ``shift`` shifts; None when that is not certain."""
        texts = [literal(word) for word in call.arguments]
        text = texts[0] if texts else "1"
        place = call.word.start
        around = parameters.start_at(place)
        perhaps = any(around < start <= place < end for start, end in self._perhaps)
        return None if perhaps or text is None or not text.isdecimal() else int(text)

    def _follow(self, call: Invocation) -> Iterator[Invocation]:
        """Return what a call comes to; itself where it is written out or cannot be followed."""
        found = list(self._found(call) or ()) if call.form is WordForm.DYNAMIC else None
        if found is None or (not found and not self._runs_nothing(call)):
            yield call
        else:
            yield from found

    def _runs_nothing(self, call: Invocation) -> bool:
        """Return whether the arguments of a script that was given none are to be run."""
        if self._source.written(call.word) not in _LISTS:
            return False
        return self.known.sites_at(call.word.start) == [] and not call.arguments

    def _found(self, call: Invocation) -> Sequence[Invocation] | None:
        if call.given is not None:
            return None
        if self._source.written(call.word) in _LISTS:
            return self._handed_on(call)
        arguments = arguments_of(call.word, self.known)
        if not arguments or any(one.loose or one.unknown for one in arguments):
            return None
        first, *leading = arguments
        named = [self._named(call, name, leading) for name in first.values]
        return None if None in named else [one for one in named if one is not None]

    def _named(self, call: Invocation, name: str, leading: Sequence[Argument]) -> Invocation | None:
        """Return the call of a command by a name that is a value."""
        if not _NAME.fullmatch(name) or (name in PREFIXES and name not in self._functions):
            return None
        if name in self._builtins and name not in self._nameable:
            return None
        return replace(call, form=WordForm.PLAIN, name=name, leading=tuple(leading))

    def _handed_on(self, call: Invocation) -> Sequence[Invocation] | None:
        """Return the calls of ``"$@"``: the words of each call of the function around it."""
        sites = self.known.sites_at(call.word.start)
        if sites is None:
            return None
        found: list[Invocation] = []
        gone = self.known.shifted(call.word.start)
        for site in sites:
            if gone and site.leading:
                return None
            if site.leading:
                name = site.leading[0].values[0]
                one = self._named(call, name, site.leading[1:]) if len(site.leading[0].values) == 1 else None
                if one is None:
                    return None
                found.append(replace(one, arguments=(*site.words, *call.arguments)))
                continue
            lists = self._written_out(site.words, _DEPTH)
            if lists is None:
                return None
            for words in lists:
                ran = list(resolve(call.call, [*words[gone:], *call.arguments], self._source, call.prefixes))
                if any(one.form is not WordForm.PLAIN for one in ran):
                    return None
                found += ran
        return found

    def _written_out(self, words: Sequence[Node], depth: int) -> list[list[Node]] | None:
        """Return words with every ``"$@"`` replaced by what stands for it; None where that is not known."""
        lists: list[list[Node]] = [[]]
        for word in words:
            choices: list[list[Node]] = [[word]]
            if self._source.written(word) in _LISTS:
                sites = self.known.sites_at(word.start)
                if sites is None or depth == 0 or any(site.leading for site in sites):
                    return None
                choices = []
                for site in sites or [CallSite()]:
                    inner = self._written_out(site.words[self.known.shifted(word.start) :], depth - 1)
                    if inner is None:
                        return None
                    choices += inner
            lists = [[*before, *choice] for before in lists for choice in choices]
            if len(lists) > VALUES:
                return None
        return lists


def scopes_of(source: ShellSource) -> list[FunctionExtent]:
    """Return the functions of a script."""
    return [
        FunctionExtent(node.start, node.end, name.text("Value"))
        for node in source.nodes
        if node.kind == "FuncDecl" and (name := _name(node)) is not None
    ]


def _name(node: Node) -> Node | None:
    return node.node("Name")
