"""The JSON documents of the wire contract. Only this package knows the wire names.

This package defines the form of requests and the serialization of results; only this package uses
milliseconds. Each document is a pydantic model, which writes the JSON, describes it for `/openapi.json`,
and provides types to the client.
"""

from assayd.documents.attempts import (
    build_attempt_document,
    build_event_document,
    format_event_id,
    parse_event_id,
    serialize_attempt,
)
from assayd.documents.base import (
    BaseDocument,
    build_error_document,
    canonical,
    digest,
    format_optional_time,
    parse_json,
    read_bytes,
    reject_excess_values,
    serialize_compact,
    to_plain,
)
from assayd.documents.batches import build_batch_document, build_progress_document
from assayd.documents.execution import (
    build_execution_document,
    build_submission_diff,
    join_output,
    replay_diff,
)
from assayd.documents.reports import build_limits_document, build_report_document, junit
from assayd.documents.submission import (
    LARGE_DOCUMENT_BYTES,
    MAX_SOURCE_BYTES,
    PayloadCaps,
    SubmissionBody,
    add_payload_fields,
    read_accepted,
    read_submission,
)

__all__ = [
    "LARGE_DOCUMENT_BYTES",
    "MAX_SOURCE_BYTES",
    "BaseDocument",
    "PayloadCaps",
    "SubmissionBody",
    "serialize_attempt",
    "build_attempt_document",
    "build_batch_document",
    "canonical",
    "serialize_compact",
    "digest",
    "build_error_document",
    "build_event_document",
    "format_event_id",
    "build_execution_document",
    "join_output",
    "junit",
    "build_limits_document",
    "to_plain",
    "build_progress_document",
    "read_accepted",
    "read_bytes",
    "parse_event_id",
    "parse_json",
    "read_submission",
    "reject_excess_values",
    "add_payload_fields",
    "replay_diff",
    "build_report_document",
    "build_submission_diff",
    "format_optional_time",
]
