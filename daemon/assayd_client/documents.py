"""Exports the types of the documents that responses contain.

The types are imported on first use, so that clients can run without pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assayd.documents.attempts import *  # noqa: F403
    from assayd.documents.batches import *  # noqa: F403
    from assayd.documents.chains import *  # noqa: F403
    from assayd.documents.cluster import *  # noqa: F403
    from assayd.documents.discovery import *  # noqa: F403
    from assayd.documents.library import *  # noqa: F403
    from assayd.documents.policy_review import *  # noqa: F403

_HOMES = {
    "attempts": ("ArtifactListDocument", "AttemptDocument", "AttemptPageDocument", "SummaryDocument"),
    "batches": ("BatchDocument", "BatchPageDocument", "BatchResultDocument", "ItemPageDocument"),
    "chains": (
        "AnswersDocument",
        "GenerationDocument",
        "GenerationPageDocument",
        "RepairDocument",
        "RepairPageDocument",
        "StepDocument",
        "WorkflowCheckDocument",
        "WorkflowDocument",
        "WorkflowOutputsDocument",
        "WorkflowPageDocument",
    ),
    "cluster": (
        "DistrustDocument",
        "ForgottenNodeDocument",
        "NewTokenDocument",
        "NodeDocument",
        "NodeListDocument",
        "TokenDocument",
        "TokenListDocument",
    ),
    "discovery": (
        "DaemonDocument",
        "ExaminationDocument",
        "GarbageDocument",
        "KindDocument",
        "KindListDocument",
        "PolicyCheckDocument",
        "PolicyListDocument",
    ),
    "library": ("LibraryEntryDocument", "LibraryPageDocument"),
    "policy_review": ("ExplanationDocument", "SuggestionDocument"),
}
_MODULE_BY_NAME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"assayd.documents.{_MODULE_BY_NAME[name]}"), name)
