"""Counts cells on the stack by walking over the words of a definition (an abstract interpretation).

The walk relies on documented effects. A word with an unknown effect ends the count without a finding; later
words are followed but not judged.

    : f ( n -- n n ) 2 * ;                  vocabulary.wrong_signature, or structure.stack_effect
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from assayd_fifth.control import METHODS, ControlStructures
from assayd_fifth.flow import UNKNOWN_CELLS, Cell, EndState, StringFlow, WalkState
from assayd_fifth.language import MOST_CELLS, FifthWord, Language, StackEffect
from assayd_fifth.tokens import STRING, TAKING, WORD, Report, Token, is_number


class WalkScope(Protocol):
    """The interface of the program around a walk, for looking up words and reporting."""

    language: Language
    known: dict[str, FifthWord]

    def is_number_in_base(self, word: str) -> bool:
        """Return whether a word is a number in another base, if the base can have changed."""
        ...

    def record_unknown(self, token: Token, before: str) -> None:
        """Record an unknown word. `before` is the word before it."""
        ...

    def use(self, token: Token) -> None:
        """Record the use of a word that must be used together with another word."""
        ...

    def apply_parsing_word(self, token: Token) -> None:
        """Apply a parsing word to the word that it reads from the source."""
        ...

    def apply_role(self, role: str) -> None:
        """Apply a word's effect on the program, which is separate from its effect on the stack."""
        ...

    def add_created_word(self, name: str, by: Token, maker: FifthWord) -> None:
        """Record a word that a defining word creates. `by` is its name, or the word that reads its name."""
        ...

    def included(self, token: Token, path: str) -> None:
        """Load a file whose path is a string, and report this way of loading."""
        ...


class WalkResult(NamedTuple):
    """The result of a walk over a definition, or over the part before or after `does>`.

    `takes` and `leaves` are valid only if `exact` is True. `agrees` is True if the stack comment states the
    same effect.
    """

    exact: bool = False
    certain: bool = False
    takes: int = 0
    leaves: int = 0
    agrees: bool = True

    @property
    def is_countable(self) -> bool:
        """Return whether the effect is known and small enough for users of the definition."""
        return self.exact and max(self.takes, self.leaves) <= MOST_CELLS


_EMPTY_RESULT = WalkResult()


class Walk:
    """A walk over one definition, or over all code outside definitions (`opener` is then None).

    `suspicious` is True if a parameter has a name of external data, and `placed` if the walk determines
    which parameters reach SQL.
    """

    def __init__(
        self,
        scope: WalkScope,
        report: Report,
        *,
        opener: Token | None = None,
        declared: StackEffect | None = None,
        suspicious: bool = False,
        placed: bool = False,
    ) -> None:
        self.outside = opener is None
        self.flow = StringFlow(scope.language, report, outside=self.outside)
        self.declared = declared
        cells, allowed = self._build_initial_cells(opener, traced=suspicious or placed, placed=placed)
        counted = declared is not None and declared.takes.counted
        self.state = WalkState(report, cells, allowed, counted=counted)
        settled = declared is not None and declared.counted
        self.control = ControlStructures(self.state, outside=self.outside, counted=settled)
        self.found: list[WalkResult] = []
        self.parses = 0
        """Number of source words that the definition reads when it runs."""
        self.defines = False
        """Whether the definition defines words with these source words; `child` is the effect of those words,
        if known.
        """
        self.child: StackEffect | None = None
        self._scope = scope
        self._report = report
        self._tokens: Sequence[Token] = ()
        self._at = 0

    def run(self, tokens: Sequence[Token]) -> None:
        """Walk over the words of a definition, and update the state."""
        self._tokens, known, cells, count, at = tokens, self._scope.known, self.state.cells, len(tokens), 0
        while at < count:
            token = tokens[at]
            at += 1
            word = known.get(token.word)
            if word is not None and word.plain:
                rest = len(cells) - word.takes
                if rest < 0 or any(cells[rest:]):
                    self._apply_plain_word(word, token)
                else:  # the usual case: the taken cells are unknown
                    cells[rest:] = UNKNOWN_CELLS[word.leaves]
                    if not word.certain:
                        self.state.certain = False
                continue
            self._at = at
            if word is None:
                self._apply_unknown_word(token)
            elif token.kind is WORD:
                self._apply_special_role(word, token)
            else:
                self._apply_parsing_word(word, token)
            at = self._at

    @property
    def quoted_string_cells(self) -> tuple[tuple[int, Token], ...]:
        """Return the position from the top, and the quotes, of each string with quotes on the final stack."""
        cells = reversed(self.state.cells) if self.state.exact else ()
        return tuple((place, cell.quotes) for place, cell in enumerate(cells) if cell and cell.quotes)

    def end(self, token: Token) -> None:
        """End the definition at its `;`, or end the part before `does>`."""
        self.control.end(token)
        self.found.append(self._summarize_ends())

    def _build_initial_cells(
        self, opener: Token | None, *, traced: bool, placed: bool
    ) -> tuple[list[Cell], int | None]:
        """Return the initial cells, and the number of further cells that can be below them.

        None means any number.
        """
        if opener is None:
            return [], 0
        if self.declared is None:
            return [], None
        taken = self.declared.takes
        cells = (
            self.flow.parameters(taken, opener, placed=placed) if traced else list(UNKNOWN_CELLS[taken.least])
        )
        return cells, taken.most - taken.least

    def _apply_plain_word(self, word: FifthWord, token: Token) -> None:
        """Apply a word that has a fixed effect and no other behavior."""
        state = self.state
        taken = state.pop_cells(word.takes, word, token)
        state.certain = state.certain and word.certain
        if word.moves is not None:
            state.cells.extend([taken[place] for place in word.moves])
        else:
            self.flow.check_use(taken, token)
            kept = [taken[place] if place >= 0 else None for place in word.keeps]
            state.cells.extend(kept or UNKNOWN_CELLS[word.leaves])

    def _apply_special_role(self, word: FifthWord, token: Token) -> None:
        """Apply a word that has behavior other than its effect."""
        if word.told or self.outside:
            self._report_watched_word(word, token)
        if word.parses:
            self._read_word_arguments(word)
        role = word.role
        if role is None:
            self._apply_word(word, token)
        elif role in METHODS:
            METHODS[role](self.control, word, token)
        else:
            self._apply_role(role, word, token)
        self.control.doubled = role == "maybe_dup"

    def _apply_role(self, role: str, word: FifthWord, token: Token) -> None:
        """Apply a word with a role that affects more than its own cells, such as `recurse`."""
        match role:
            case "maybe_dup":
                self._apply_maybe_dup(word, token)
            case "pick":
                self.state.pop_cells(1, word, token)
                self.state.cells.append(None)
            case "recurse":
                self._apply_recurse(word, token)
            case "does":
                self._apply_does(token)
            case "bracket":
                self._skip_brackets()
            case "macro":
                self.state.macro, self.state.known = True, False
                self.state.forget_depth()
            case "included":
                before = self._tokens[self._at - 2] if self._at > 1 else token
                self._scope.included(token, before.text if before.kind is STRING else "")
                self._apply_word(word, token)
            case _:
                self._scope.apply_role(role)
                self._apply_word(word, token)

    def _apply_word(self, word: FifthWord, token: Token) -> None:
        """Apply a word's effect to the stack and to the tracked strings.

        After a word with an unknown effect, the depth is unknown.
        """
        if word.effect is None:
            self.flow.apply_word(word, token, [])
            self.state.forget_depth()
            return
        taken = self.state.pop_cells(word.takes, word, token)
        self.state.certain = self.state.certain and word.certain
        self.state.cells.extend(self.flow.apply_word(word, token, taken))

    def _report_watched_word(self, word: FifthWord, token: Token) -> None:
        """Report a word to which a rule for watched words applies."""
        if token.word in self._scope.language.companions:
            self._scope.use(token)
        if word.rule is not None:
            self._report(word.rule, token.start, word=token.word, at=token)
        if word.defect is not None:
            self._report(word.defect[0], token.start, word=token.word, defect=word.defect[1])
        if self.outside and word.compile_only and not self.control.frames:
            self._report("structure.compile_only", token.start, word=token.word)

    def _read_word_arguments(self, word: FifthWord) -> None:
        """Read a word's arguments from the source, now or, in a definition, each time that it is run."""
        if not self.outside:
            self.parses += word.parses
            if word.defines:
                self.defines, self.child = True, word.child
            return
        for taken in self._tokens[self._at : self._at + word.parses]:
            if word.defines:
                self._scope.add_created_word(taken.word, taken, word)
        self._at += word.parses

    def _apply_parsing_word(self, word: FifthWord, token: Token) -> None:
        """Apply a string word or parsing word, together with the text that it reads."""
        if word.told or self.outside:
            self._report_watched_word(word, token)
        if token.kind is TAKING:
            self.state.macro = self.state.macro or token.word == "postpone"
            self._scope.apply_parsing_word(token)
        self.state.pop_cells(word.takes, word, token)
        if token.kind is STRING and word.leaves == 2:
            self.state.cells.extend((self.flow.build_literal_cell(token), None))
        else:
            self.state.cells.extend(UNKNOWN_CELLS[word.leaves])
        if self.state.macro:
            self.state.forget_depth()

    def _apply_unknown_word(self, token: Token) -> None:
        """Handle a word that isn't in the tables: a number, a word with a rule, or an unknown word."""
        if token.kind is WORD and (is_number(token.word) or self._scope.is_number_in_base(token.word)):
            self.state.cells.append(None)
            return
        self.state.known = False
        rule = self._scope.language.rules.by_word.get(token.word)
        if rule is not None:
            self._report(rule.id, token.start, word=token.word, at=token)
        else:
            self._scope.record_unknown(token, self._tokens[self._at - 2].word if self._at > 1 else "")
        self.state.forget_depth()

    def _apply_maybe_dup(self, word: FifthWord, token: Token) -> None:
        """Follow `?dup` only if the next word takes the flag."""
        after = self._tokens[self._at].word if self._at < len(self._tokens) else ""
        if after not in {"if", "while"}:
            self.state.forget_depth()

    def _apply_recurse(self, word: FifthWord, token: Token) -> None:
        if self.declared is None or not self.declared.counted:
            self.state.forget_depth()
            return
        self.state.pop_cells(self.declared.takes.least, word, token)
        self.state.cells.extend(UNKNOWN_CELLS[self.declared.leaves.least])

    def _apply_does(self, token: Token) -> None:
        """End the part before `does>`, and begin that of the created word, whose stack has an address."""
        self.end(token)
        self.declared, self.state.counted = None, False
        self.state.cells[:] = [None]
        self.state.returns.clear()
        self.state.borrowed, self.state.allowed = 0, None
        self.state.exact = self.state.alive = True
        self.control.leaving.clear()

    def _skip_brackets(self) -> None:
        """Skip the code that runs while the definition is compiled."""
        self.state.known = False
        while self._at < len(self._tokens) and self._tokens[self._at].word != "]":
            self._at += 1
        self._at += 1

    def _summarize_ends(self) -> WalkResult:
        """Return the effect that all ends of the definition share. If they differ, report that.

        If they differ or aren't known exactly, return an inexact result.
        """
        ends = self.control.leaving
        if not ends or self.control.broken:
            return _EMPTY_RESULT
        first, other, borrowed = ends[0], None, 0
        for end in ends:
            if not end.exact:
                return _EMPTY_RESULT
            if end.height != first.height:
                other = other or end
            borrowed = max(borrowed, end.borrowed)
        if other is not None:
            self._report_branch_difference(first, other)
            return _EMPTY_RESULT
        start = self.declared.takes.least if self.declared else 0
        return WalkResult(
            exact=True,
            certain=self.state.certain,
            takes=start + borrowed,
            leaves=first.height + borrowed,
            agrees=self.declared is None or _matches_effect(self.declared, first.height - start),
        )

    def _report_branch_difference(self, one: EndState, other: EndState) -> None:
        self.state.report_fault(
            "structure.stack_effect",
            one.token,
            problem=f"The definition leaves {one.height} items at this '{one.token.word}', "
            f"but {other.height} at another end.",
            remedy="Leave the same number of items on every code path.",
            word=other.token.word,
        )


def _matches_effect(declared: StackEffect, net: int) -> bool:
    """Return whether a stack comment is consistent with this number of additional items."""
    least = declared.leaves.least - declared.takes.most
    return least <= net <= declared.leaves.most - declared.takes.least
