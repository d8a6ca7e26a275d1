"""Reads and writes JSON with the C functions of the package `json`, which itself would import `re`."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

from . import private

private.isolate_builtins(globals())


class _ScannerRules:
    """The settings of a scanner, as in `json.loads`, but without NaN and infinities, which aren't JSON."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(text: str) -> object:
        raise ValueError(f"not JSON: {text}")


def _refuse_type(value: object) -> object:
    raise TypeError(f"not JSON: {type(value)}")


_scan = make_scanner(_ScannerRules)  # type: ignore[arg-type]  # anything with these attributes
_encode = make_encoder(None, _refuse_type, encode_basestring_ascii, None, ":", ",", False, False, False)


def loads(text: bytes | bytearray) -> object:
    """Return the value of a JSON text without white space around it. Raises: ValueError, RecursionError."""
    decoded = text.decode("utf-8", "surrogatepass")
    try:
        value, end = _scan(decoded, 0)
    except StopIteration:
        raise ValueError("not JSON: a value is missing") from None
    if end != len(decoded):
        raise ValueError("not JSON: there is more after the value")
    return value


def serialize_json(value: object) -> bytes:
    """Return a value as ASCII JSON. Raises: ValueError or TypeError, if JSON can't express the value."""
    return "".join(_encode(value, 0)).encode()
