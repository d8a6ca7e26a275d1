"""Exports the types of the documents that answers contain.

The types are imported on first use, so that clients can run without pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assayd.documents.attempts import (
        ArtifactListDocument,
        AttemptDocument,
        AttemptPageDocument,
        SummaryDocument,
    )
    from assayd.documents.batches import (
        BatchDocument,
        BatchPageDocument,
        BatchResultDocument,
        ItemPageDocument,
    )
    from assayd.documents.chains import (
        AnswersDocument,
        GenerationDocument,
        GenerationPageDocument,
        RepairDocument,
        RepairPageDocument,
        StepDocument,
    )
    from assayd.documents.cluster import (
        DistrustDocument,
        ForgottenNodeDocument,
        NewTokenDocument,
        NodeDocument,
        NodeListDocument,
        TokenDocument,
        TokenListDocument,
    )
    from assayd.documents.discovery import (
        DaemonDocument,
        ExaminationDocument,
        GarbageDocument,
        KindDocument,
        KindListDocument,
        PolicyCheckDocument,
        PolicyListDocument,
    )
    from assayd.documents.library import LibraryEntryDocument, LibraryPageDocument
    from assayd.documents.policy_review import ExplanationDocument, SuggestionDocument
    from assayd.documents.workflows import (
        WorkflowCheckDocument,
        WorkflowDocument,
        WorkflowOutputsDocument,
        WorkflowPageDocument,
    )

_HOMES = {
    "attempts": ("ArtifactListDocument", "AttemptDocument", "AttemptPageDocument"),
    "batches": ("BatchDocument", "BatchPageDocument", "BatchResultDocument", "ItemPageDocument"),
    "chains": (
        "AnswersDocument",
        "GenerationDocument",
        "GenerationPageDocument",
        "RepairDocument",
        "RepairPageDocument",
        "StepDocument",
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
    "discovery": ("KindDocument", "KindListDocument", "PolicyCheckDocument", "PolicyListDocument"),
    "library": ("LibraryEntryDocument", "LibraryPageDocument"),
    "operations": ("DaemonDocument", "ExaminationDocument", "GarbageDocument"),
    "policy_review": ("ExplanationDocument", "SuggestionDocument"),
    "summary": ("SummaryDocument",),
    "workflows": (
        "WorkflowCheckDocument",
        "WorkflowDocument",
        "WorkflowOutputsDocument",
        "WorkflowPageDocument",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AnswersDocument",
    "ArtifactListDocument",
    "AttemptDocument",
    "AttemptPageDocument",
    "BatchDocument",
    "BatchPageDocument",
    "BatchResultDocument",
    "ExplanationDocument",
    "DaemonDocument",
    "DistrustDocument",
    "ExaminationDocument",
    "ForgottenNodeDocument",
    "GarbageDocument",
    "ItemPageDocument",
    "KindDocument",
    "KindListDocument",
    "PolicyCheckDocument",
    "GenerationDocument",
    "GenerationPageDocument",
    "LibraryEntryDocument",
    "LibraryPageDocument",
    "NewTokenDocument",
    "NodeDocument",
    "NodeListDocument",
    "PolicyListDocument",
    "RepairDocument",
    "RepairPageDocument",
    "StepDocument",
    "SuggestionDocument",
    "SummaryDocument",
    "TokenDocument",
    "TokenListDocument",
    "WorkflowCheckDocument",
    "WorkflowDocument",
    "WorkflowOutputsDocument",
    "WorkflowPageDocument",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"assayd.documents.{_HOME[name]}"), name)
