"""The JSON documents of the wire contract. Only this package knows the wire names.

This package defines the form of requests and the serialization of results; only this package uses
milliseconds. Each document is a pydantic model, which writes the JSON, describes it for `/openapi.json`,
and provides types to the client.
"""

from assayd.documents.attempts import attempt_body, attempt_document, event_document, event_id, read_event_id
from assayd.documents.base import (
    BaseDocument,
    canonical,
    digest,
    error_document,
    format_optional_time,
    parse_json,
    read_bytes,
    refuse_many_values,
    serialize_compact,
    to_plain,
)
from assayd.documents.batches import batch_document, progress_document
from assayd.documents.execution import execution_document, join_output, replay_diff, submission_diff
from assayd.documents.reports import junit, limits_document, report_document
from assayd.documents.submission import (
    LARGE_DOCUMENT_BYTES,
    MAX_SOURCE_BYTES,
    PayloadCaps,
    SubmissionBody,
    read_accepted,
    read_submission,
    with_fields,
)

__all__ = [
    "LARGE_DOCUMENT_BYTES",
    "MAX_SOURCE_BYTES",
    "BaseDocument",
    "PayloadCaps",
    "SubmissionBody",
    "attempt_body",
    "attempt_document",
    "batch_document",
    "canonical",
    "serialize_compact",
    "digest",
    "error_document",
    "event_document",
    "event_id",
    "execution_document",
    "join_output",
    "junit",
    "limits_document",
    "to_plain",
    "progress_document",
    "read_accepted",
    "read_bytes",
    "read_event_id",
    "parse_json",
    "read_submission",
    "refuse_many_values",
    "with_fields",
    "replay_diff",
    "report_document",
    "submission_diff",
    "format_optional_time",
]
