"""What the core asks of workflows, which are a wing: `assayd_workflows`."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

PACKAGE = "assayd_workflows"


class Workflows(Protocol):
    """The workflows of a daemon, as far as the core knows of them."""

    async def recover(self, only: Container[str] | None = None) -> None:
        """Continue unfinished workflows of a previous run: all, or `only` those with these ids."""
        ...

    def end(self, workflow_id: str) -> bool:
        """End a workflow that is carried out in this process; return whether it is."""
        ...


class NoWorkflows:
    """An implementation of `Workflows` for use when their package isn't installed."""

    async def recover(self, only: Container[str] | None = None) -> None:
        """Do nothing: no workflow is under way."""

    def end(self, workflow_id: str) -> bool:
        """Return False: no workflow is carried out here."""
        return False
