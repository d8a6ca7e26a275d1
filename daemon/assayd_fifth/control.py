r"""Checks control flow: matching control words, the joins of branches, and the stack effect of loops.

The Fifth engine accepts an `if` without a `then`, and continues with the following code. Therefore, an
unclosed structure, or an end without a beginning, is an error if every word before it is known. A wrong
depth or return stack is an error only if it can't be corrected on another path through the definition.

    : f ( n -- ) if drop ;                  structure.unbalanced
    : f ( n -- n ) dup if 1 then ;          structure.branches
    : f ( -- ) 3 0 do i loop ;              structure.loop
    : f ( n -- ) >r ;                       structure.return_stack
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from assayd_fifth.flow import Cell, EndState, Snapshot, WalkState
from assayd_fifth.language import FifthWord
from assayd_fifth.tokens import Token

_CLOSERS: Mapping[str, str] = {
    "if": "then",
    "else": "then",
    "begin": "repeat, until or again",
    "while": "repeat",
    "do": "loop or +loop",
    "?do": "loop or +loop",
    "case": "endcase",
    "of": "endof",
}
_RETURN_STACK_REMEDY = (
    "Take back each >r with one r>, and each 2>r with one 2r>, on every path and before exit; r@ only "
    "copies. Before exit in a loop, write unloop."
)


@dataclass(slots=True, kw_only=True)
class _ControlFrame:
    """An open control structure. `saved` is the state to compare with the state at the end."""

    word: str
    token: Token
    saved: Snapshot
    ends: list[Snapshot] = field(default_factory=list)


class ControlStructures:
    """The control structures of one definition, with one method per word or group of equivalent words."""

    def __init__(self, state: WalkState, *, outside: bool, counted: bool) -> None:
        self.frames: list[_ControlFrame] = []
        self.broken = False
        """Whether control words don't match. The words after them aren't checked."""
        self.leaving: list[EndState] = []
        self.doubled = False
        """Whether ?dup precedes the word, so that the flag remains on one of the two branches."""
        self._state = state
        self._outside = outside
        self._counted = counted
        """Whether a stack comment states, without alternatives, how many cells the definition leaves."""
        self._measured = False
        """Whether the program uses `depth`, so that its loops and branches can depend on the depth."""
        self._pending: tuple[Token, Mapping[str, object]] | None = None
        """Branches that differ, until a later branch may correct the difference."""

    def end(self, token: Token) -> None:
        """End the definition, or the part of the definition before `does>`."""
        for frame in self.frames:
            if not self.broken:
                self._report_mismatch(
                    frame.token, f"'{frame.word}' is never closed.", f"Close it with {_CLOSERS[frame.word]}."
                )
        self.frames.clear()
        self._report_uneven_branches(certain=self._state.certain and self._counted)
        self._record_end(token)

    def if_(self, word: FifthWord, token: Token) -> None:
        """Begin the first branch of an `if`. The second branch begins at `else` or `then`."""
        self._open_frame(token, self._pop_flag(word, token))

    def else_(self, _: FifthWord, token: Token) -> None:
        """Begin the second branch, also the branch after the `repeat` of a `while`."""
        frame = self._close_frame(token, "if", "while")
        if frame is not None:
            self._open_frame(token)
            self._state.restore_state(frame.saved)

    def then(self, _: FifthWord, token: Token) -> None:
        """Join both branches. A branch of a `while` can also end here."""
        frame = self._close_frame(token, "if", "else", "while")
        if frame is not None:
            self._merge_branch(frame.saved, frame)

    def begin(self, _: FifthWord, token: Token) -> None:
        """Begin a loop or a `case`."""
        self._open_frame(token)

    def while_(self, word: FifthWord, token: Token) -> None:
        """Leave the loop or continue, depending on the flag. Report a `while` outside a loop."""
        if not self.frames or self.frames[-1].word not in {"begin", "while"}:
            self._report_unbalanced(token, ("begin",))
            return
        self._open_frame(token, self._pop_flag(word, token))

    def repeat(self, _: FifthWord, token: Token) -> None:
        """Jump back to `begin`. After the loop, the state is the state at its `while`.

        Report a `repeat` without one.
        """
        if not self.frames or self.frames[-1].word != "while":
            self._report_unbalanced(token, ("begin … while",))
            return
        way_out = self.frames.pop()
        loop = self._close_loop(token, "begin")
        if loop is not None:
            self._check_loop_depth(loop)
            self._state.restore_state(way_out.saved)

    def until(self, word: FifthWord, token: Token) -> None:
        """Jump back to `begin` or continue, depending on the flag."""
        self._state.pop_cells(1, word, token)
        loop = self._close_loop(token, "begin")
        if loop is not None:
            self._check_loop_depth(loop)

    def again(self, _: FifthWord, token: Token) -> None:
        """Jump back to `begin` unconditionally."""
        loop = self._close_loop(token, "begin")
        if loop is not None:
            self._check_loop_depth(loop)
            self._state.alive = False

    def do(self, word: FifthWord, token: Token) -> None:
        """Begin a counted loop, which keeps its counter and limit on the return stack."""
        self._state.pop_cells(2, word, token)
        self._state.returns.extend((None, None))
        self._open_frame(token)

    def loop(self, word: FifthWord, token: Token) -> None:
        """End a counted loop, and remove its counter and limit from the return stack."""
        self._state.pop_cells(word.takes, word, token)
        frame = self._close_frame(token, "do", "?do")
        if frame is not None:
            self._check_loop_depth(frame)
            if not self._state.alive:
                self._state.restore_state(frame.saved)
            del self._state.returns[-2:]

    def of(self, word: FifthWord, token: Token) -> None:
        """Begin the branch of a `case`. A value that doesn't match remains on the stack.

        Report an `of` without `case`.
        """
        if not self.frames or self.frames[-1].word != "case":
            self._report_unbalanced(token, ("case",))
            return
        self._state.pop_cells(1, word, token)
        self._open_frame(token)
        self._state.pop_cells(1, word, token)

    def endof(self, _: FifthWord, token: Token) -> None:
        """Jump to the end of the `case`."""
        frame = self._close_frame(token, "of")
        if frame is not None:
            self.frames[-1].ends.append(self._state.snapshot())
            self._state.restore_state(frame.saved)

    def endcase(self, word: FifthWord, token: Token) -> None:
        """Drop the compared value, and join all branches."""
        frame = self._close_frame(token, "case")
        if frame is not None:
            self._state.pop_cells(1, word, token)
            for end in frame.ends:
                self._merge_branch(end, frame)

    def depth(self, _: FifthWord, __: Token) -> None:
        """Push the depth, after which loops and branches can depend on the pushed value."""
        self._state.cells.append(None)
        self._measured = True

    def exit(self, _: FifthWord, token: Token) -> None:
        """End the definition on the current path."""
        self._record_end(token)
        self._state.alive = False

    def ends(self, _: FifthWord, __: Token) -> None:
        """End the program on the current path."""
        if self._outside:
            self._state.forget_depth()
        self._state.alive = self._outside

    def move_to_return_stack(self, word: FifthWord, token: Token) -> None:
        """Move cells from the data stack to the return stack."""
        taken = self._state.pop_cells(word.takes, word, token)
        self._state.returns.extend(taken)

    def move_from_return_stack(self, word: FifthWord, token: Token) -> None:
        """Move cells from the return stack to the data stack."""
        self._state.cells.extend(self._pop_return_stack(word.leaves, token))

    def copy_from_return_stack(self, word: FifthWord, token: Token) -> None:
        """Copy cells from the return stack to the data stack."""
        copied = self._pop_return_stack(word.leaves, token)
        self._state.returns.extend(copied)
        self._state.cells.extend(copied)

    def unloop(self, _: FifthWord, token: Token) -> None:
        """Remove the counter and limit of a loop from the return stack."""
        self._pop_return_stack(2, token)

    def _open_frame(self, token: Token, saved: Snapshot | None = None) -> None:
        self._report_uneven_branches(certain=False)
        if self._measured:
            self._state.forget_depth()
            saved = None
        self.frames.append(_ControlFrame(word=token.word, token=token, saved=saved or self._state.snapshot()))

    def _pop_flag(self, word: FifthWord, token: Token) -> Snapshot:
        """Take the flag from the stack, and return the state of the path for a false flag."""
        [flag] = self._state.pop_cells(1, word, token)
        other = self._state.snapshot()
        if self.doubled:
            self._state.cells.append(flag)
        return other

    def _close_frame(self, token: Token, *words: str) -> _ControlFrame | None:
        """End and return the structure that one of these words began.

        If another structure is open, or none, report the fault and return None.
        """
        if self.frames and self.frames[-1].word in words:
            return self.frames.pop()
        self._report_unbalanced(token, words)
        return None

    def _close_loop(self, token: Token, word: str) -> _ControlFrame | None:
        """End and return the open loop, even if it contains open `while` words.

        If another structure is open, or none, report the fault and return None.
        """
        place = len(self.frames) - 1
        while place >= 0 and self.frames[place].word == "while":
            place -= 1
        if place >= 0 and self.frames[place].word == word:
            return self.frames.pop(place)
        self._report_unbalanced(token, (word,))
        return None

    def _report_unbalanced(self, token: Token, words: Sequence[str]) -> None:
        if not self.frames:
            wanted = " or ".join(words)
            problem = f"'{token.word}' closes nothing: no {wanted} is open."
            self._report_mismatch(token, problem, f"Remove '{token.word}', or begin with {words[0]}.")
            return
        opened = self.frames[-1]
        if token.word == "endof" and opened.word == "case":
            remedy = "Write of after the value that it is for: 1 of … endof"
            self._report_mismatch(token, "'endof' closes nothing: no of is open.", remedy)
            return
        if token.word == "else" and opened.word == "else":
            self._report_mismatch(
                token, "The 'if' has a second 'else'.", "Remove one else, or begin another if."
            )
            return
        problem = f"'{token.word}' is inside the open '{opened.word}' of line {{line}}."
        remedy = f"Close '{opened.word}' with {_CLOSERS[opened.word]} first."
        self._report_mismatch(token, problem, remedy, line=opened.token)

    def _report_mismatch(self, token: Token, problem: str, remedy: str, **names: object) -> None:
        """Report control words that don't match, once per definition. The code after them isn't checked."""
        self._state.exact = False
        if not self.broken:
            self.broken = True
            certain = self._state.known and not self._outside
            names |= {"problem": problem, "remedy": remedy}
            self._state.report_fault("structure.unbalanced", token, certain=certain, **names)

    def _report_uneven_branches(self, *, certain: bool) -> None:
        """Report branches that leave different numbers of items on the stack, if any were recorded."""
        if self._pending is not None:
            token, names = self._pending
            self._pending = None
            self._state.report_fault("structure.branches", token, certain=certain, **names)

    def _merge_branch(self, other: Snapshot, frame: _ControlFrame) -> None:
        """Join the current state with the state at the end of another path.

        If only one can be reached, keep that one.
        """
        state = self._state
        if not other.alive:
            return
        if not state.alive:
            state.restore_state(other)
            return
        exact = state.exact and other.exact
        if exact and state.height != other.height:
            names = {"one": other.height, "other": state.height, "line": frame.token}
            self._report_uneven_branches(certain=False)
            self._pending = frame.token, {"word": frame.word, **names}
            exact = False
        elif exact and len(state.returns) != len(other.returns):
            problem = f"The branches of '{frame.word}' leave different items on the return stack."
            self._report_return_stack(problem, frame.token, certain=False)
            exact = False
        state.join(other)
        state.exact = exact

    def _check_loop_depth(self, frame: _ControlFrame) -> None:
        """Report a loop whose iterations change the depth of a stack."""
        state = self._state
        if not (state.reports_faults and frame.saved.exact):
            return
        change = state.height - frame.saved.height
        if change:
            self._state.report_fault(
                "structure.loop", frame.token, word=frame.word, line=frame.token, change=f"{change:+d}"
            )
            state.exact = False
        elif len(state.returns) != len(frame.saved.returns):
            problem = f"An iteration of the '{frame.word}' loop changes the return stack."
            self._report_return_stack(problem, frame.token)

    def _pop_return_stack(self, count: int, token: Token) -> list[Cell]:
        """Remove cells from the return stack and return them."""
        state = self._state
        missing = count - len(state.returns)
        if missing > 0:
            state.returns[:0] = [None] * missing
            if state.reports_faults and not self._outside:
                self._report_return_stack(
                    f"'{token.word}' takes an item that isn't on the return stack.", token
                )
        taken = state.returns[len(state.returns) - count :]
        del state.returns[len(state.returns) - count :]
        return taken

    def _record_end(self, token: Token) -> None:
        """Record the current state as a possible end of the definition."""
        state = self._state
        if state.reports_faults and state.returns and not self._outside:
            problem = f"Items are still on the return stack at '{token.word}'."
            self._report_return_stack(problem, token, remedy=self._get_end_remedy(token))
        if state.alive:
            self.leaving.append(state.end(token))

    def _get_end_remedy(self, token: Token) -> str:
        """Return the fix for items that remain on the return stack when the definition ends.

        It is specific for the items of loops and for a single item, otherwise general.
        """
        loops = sum(frame.word in {"do", "?do"} for frame in self.frames)
        kept = len(self._state.returns) - 2 * loops
        if loops and not kept:
            return f"Write `{' '.join(['unloop'] * loops)}` before `{token.word}`."
        if not loops and kept == 1:
            return (
                f"Write `r>` before `{token.word}`, then `drop` if the item isn't a result; `r@` only copies."
            )
        return _RETURN_STACK_REMEDY

    def _report_return_stack(
        self, problem: str, token: Token, *, certain: bool = True, remedy: str = _RETURN_STACK_REMEDY
    ) -> None:
        names = {"problem": problem, "remedy": remedy}
        self._state.report_fault(
            "structure.return_stack", token, certain=certain and self._state.known, **names
        )
        self._state.exact = False


METHODS: Mapping[str, Callable[[ControlStructures, FifthWord, Token], None]] = {
    "if": ControlStructures.if_,
    "else": ControlStructures.else_,
    "then": ControlStructures.then,
    "begin": ControlStructures.begin,
    "case": ControlStructures.begin,
    "while": ControlStructures.while_,
    "repeat": ControlStructures.repeat,
    "until": ControlStructures.until,
    "again": ControlStructures.again,
    "do": ControlStructures.do,
    "loop": ControlStructures.loop,
    "of": ControlStructures.of,
    "endof": ControlStructures.endof,
    "endcase": ControlStructures.endcase,
    "depth": ControlStructures.depth,
    "exit": ControlStructures.exit,
    "ends": ControlStructures.ends,
    "to_r": ControlStructures.move_to_return_stack,
    "from_r": ControlStructures.move_from_return_stack,
    "copy_r": ControlStructures.copy_from_return_stack,
    "unloop": ControlStructures.unloop,
}
"""The method of each role, for words that act on control flow or the return stack."""
