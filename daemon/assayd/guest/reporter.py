"""The child's end of its report pipe, to which the child writes its result and policy events.

Guest code runs in the same process and can replace any object that it can access. Therefore, this module
keeps private references and never looks up a name that guest code could have replaced. Guest
code can still forge a report, but a forged report has no benefit (see docs/threat-model.md).
"""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii
from _json import make_encoder as _make_encoder
from _thread import RLock
from os import write

from . import builtin_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Record = Mapping[str, object]

builtin_names.isolate_builtins(globals())

MAX_DETAIL_CHARS = 200
MAX_FILE_CHARS = 100
"""With `MAX_DETAIL_CHARS`, keeps an escaped event below 4 KiB, so that it is written in one piece."""
_MAX_BODY_BYTES = 2**20


def _reject_non_json(value: object) -> object:
    raise TypeError(f"not JSON: {type(value)}")


class Reporter:
    """A thread-safe writer of report frames to a pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = RLock()
        self._seen: set[tuple[str, str, str | None, int | None]] = set()
        self._closed = False
        self._encode = _make_encoder(
            None, _reject_non_json, encode_basestring, None, ":", ",", False, False, False
        )

    def event(
        self,
        kind: str,
        detail: str,
        *,
        allowed: bool,
        enforced: bool,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        """Report a policy event once for each combination of kind, detail and location.

        Ignore the event after the last result.
        """
        detail = detail[:MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace").decode()[:MAX_DETAIL_CHARS]
        key = (kind, detail, file, line)
        with self._lock:
            if self._closed or key in self._seen:
                return
            self._seen.add(key)
            self._write(
                f'{{"type":"event","kind":{encode_basestring_ascii(kind)},'
                f'"detail":{encode_basestring_ascii(detail)},'
                f'"allowed":{_to_json_bool(allowed)},"enforced":{_to_json_bool(enforced)},'
                f'"file":{"null" if file is None else encode_basestring_ascii(file[:MAX_FILE_CHARS])},'
                f'"line":{"null" if line is None else line}}}'.encode(),
                b"",
            )

    def report_progress(self, record: Record) -> None:
        """Write a line of the result, before the result record."""
        content = _encode_utf8("".join((*self._encode(record, 0), "\n")))
        with self._lock:
            self._write_result(content, closing=False)

    def result(self, record: Record, *, last: bool) -> None:
        """Write the result record. If `last` is true, nothing can be reported after it."""
        content = _encode_utf8("".join(self._encode(record, 0)))
        with self._lock:
            self._closed = last
            self._write_result(content, closing=True)

    def _write_result(self, content: bytes, *, closing: bool) -> None:
        for start in range(0, len(content), _MAX_BODY_BYTES):
            last = closing and start + _MAX_BODY_BYTES >= len(content)
            head = b'{"type":"result","last":' + _to_json_bool(last).encode() + b"}"
            self._write(head, content[start : start + _MAX_BODY_BYTES])

    def _write(self, head: bytes, body: bytes) -> None:
        rest = memoryview(len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)
        while rest:
            rest = rest[write(self._descriptor, rest) :]


def _encode_utf8(text: str) -> bytes:
    # Half a surrogate pair becomes its JSON escape.
    return text.encode("utf-8", "backslashreplace")


def _to_json_bool(value: bool) -> str:
    return "true" if value else "false"
