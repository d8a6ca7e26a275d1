"""Implements a provider that needs no model and applies only edits that rules offer as certain."""

from __future__ import annotations

from collections.abc import Sequence

from assayd.errors import ProviderError
from assayd.model.finding import Edit
from assayd.model.prompting import EditedPart
from assayd_chains.provider import FixRequest, Reply

NAME = "rules"


class RulesProvider:
    """A provider that applies the certain edits offered by rules. Implements `provider.Provider`."""

    name: str = NAME

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        """Apply all certain edits at once, and return the edited passage or files.

        Raises: ProviderError ``provider.no_edit``, if no finding has a certain edit.
        """
        own = EditedPart(passage=request.passage, edits=request.edits)
        edited = [one for one in (own, *request.others) if one.edits]
        if not edited:
            raise ProviderError("provider.no_edit", "no finding has a certain edit")
        mended = {
            one.passage.name: apply_edits(one.passage.text, remove_overlapping_edits(one.edits))
            for one in edited
        }
        if list(mended) == [request.passage.name]:
            reason = f"Applied the certain edits at line {_format_lines(own)}."
            return Reply(code=mended[request.passage.name], reason=reason)
        places = "; ".join(f"{one.passage.name}, line {_format_lines(one)}" for one in edited)
        return Reply(files=mended, reason=f"Applied the certain edits in {places}.")


def _format_lines(edited: EditedPart) -> str:
    return ", ".join(str(edit.start_line) for edit in remove_overlapping_edits(edited.edits))


def remove_overlapping_edits(edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits in line order. Of two edits that touch each other, only the first is kept."""
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda e: (e.start_line, e.end_line, e.replacement)):
        if not kept or edit.start_line > max(kept[-1].end_line, kept[-1].start_line):
            kept.append(edit)
    return kept


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the edits applied, the last edit first, so that line numbers stay valid.

    An empty replacement deletes the lines.
    """
    lines = text.split("\n")
    for edit in reversed(edits):
        new = edit.replacement.removesuffix("\n").split("\n") if edit.replacement else []
        lines[edit.start_line - 1 : edit.end_line] = new
    return "\n".join(lines)
