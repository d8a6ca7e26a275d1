"""JSON without the package `json`, which brings `re`: the same functions in C, as the package calls them."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

from . import private

private.isolate(globals())


class _Rules:
    """How a scanner reads: as `json.loads` does, but for NaN and infinities, which are no JSON."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(text: str) -> object:
        raise ValueError(f"not JSON: {text}")


def _refuse(value: object) -> object:
    raise TypeError(f"not JSON: {type(value)}")


_scan = make_scanner(_Rules)  # type: ignore[arg-type]  # anything with these attributes
_encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)


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


def dumps(value: object) -> bytes:
    """Return a value as JSON, all of it ASCII. Raises: ValueError, TypeError for what JSON cannot hold."""
    return "".join(_encode(value, 0)).encode()
