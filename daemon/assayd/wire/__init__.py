"""Between the values inside and the JSON outside: the one place that knows the wire names.

Decides what a request may look like and how results are written; milliseconds exist only here.
"""

from assayd.wire.documents import (
    artifact_document,
    attempt_document,
    error_document,
    event_document,
    event_id,
    limits_document,
    read_event_id,
    report_document,
    timestamp,
)
from assayd.wire.execution import execution_document, joined_output
from assayd.wire.junit import junit
from assayd.wire.strict_json import canonical, compact, digest, read_json
from assayd.wire.submission import (
    MAX_INPUTS_BYTES,
    MAX_SOURCE_BYTES,
    SubmissionBody,
    read_sample,
    read_submission,
)

__all__ = [
    "MAX_INPUTS_BYTES",
    "MAX_SOURCE_BYTES",
    "SubmissionBody",
    "artifact_document",
    "attempt_document",
    "canonical",
    "compact",
    "digest",
    "error_document",
    "event_document",
    "event_id",
    "execution_document",
    "joined_output",
    "junit",
    "limits_document",
    "read_event_id",
    "read_json",
    "read_sample",
    "read_submission",
    "report_document",
    "timestamp",
]
