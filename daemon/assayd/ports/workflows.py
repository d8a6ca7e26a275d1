"""The core's interface to workflows, which the wing `assayd_workflows` implements."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

PACKAGE = "assayd_workflows"


class Workflows(Protocol):
    """The workflows of a daemon, as far as the core uses them."""

    async def recover(self, only: Container[str] | None = None) -> None:
        """Continue the unfinished workflows of a previous run: all, or those with an id in `only`."""
        ...

    def end(self, workflow_id: str) -> bool:
        """End a workflow if this process drives it; return whether this process drives it."""
        ...


class NoWorkflows:
    """An implementation of `Workflows`, used if their package isn't installed."""

    async def recover(self, only: Container[str] | None = None) -> None:
        """Do nothing, because no workflows exist."""

    def end(self, workflow_id: str) -> bool:
        """Return False, because no workflows exist."""
        return False
