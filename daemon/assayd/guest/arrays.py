"""Represents numpy and pandas values: scalars as plain values, arrays and tables with their kind.

    numpy.int64(3)                  3
    numpy.array([[1, 2]])           {"$py": "ndarray", "value": [[1, 2]], "type": "int64"}
    pandas.Series([5], name="n")    {"$py": "series", "value": {"name": "n", "index": [0], "values": [5]}, …}
    pandas.DataFrame({"a": [5]})    {"$py": "dataframe", "value": {"columns": ["a"], "dtypes": ["int64"], …}, …}
    pandas.Timestamp, NaT, NA       a datetime; null

This module loads neither library. Modules with these names in `sys.modules` may be guest code; their errors
are handled like other errors of the guest.
"""  # noqa: E501 - a line is a form

from __future__ import annotations

import sys

from . import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

private.isolate_builtins(globals())

_TIMES = {"M": "datetime64[us]", "m": "timedelta64[us]"}
"""Kinds of dtype whose finer values would come as bare numbers."""
_mro_of = type.__dict__["__mro__"].__get__


def build_array_form(value: Any) -> tuple[str, object, str] | None:
    """Return the tag (can be empty), content and type of a numpy or pandas value; None for other values.

    Raises: any exception that guest code raises.
    """
    kind = type(value)
    if _is_subclass_of(kind, "pandas", "DataFrame"):
        return "dataframe", _build_table_form(value), f"{len(value)} x {len(value.columns)}"
    if _is_subclass_of(kind, "pandas", "Series"):
        return "series", _build_series_form(value), str(value.dtype)
    if _is_subclass_of(kind, "numpy", "ndarray"):
        return "ndarray", _strip_time_unit(value).tolist(), str(value.dtype)
    if _is_subclass_of(kind, "pandas", "Index"):
        return "", _to_list(value), ""
    nothing = any(value is _get_loaded_attribute("pandas", name) for name in ("NaT", "NA"))
    return ("", None, "") if nothing else _build_scalar_form(value, kind)


def is_like_base(kind: type) -> bool:
    """Return whether values of a type (float64, Timestamp) equal those of its base except for its name."""
    times = (_get_loaded_attribute("pandas", name) for name in ("Timestamp", "Timedelta"))
    return _is_subclass_of(kind, "numpy", "generic") or any(kind is one for one in times)


def _build_scalar_form(value: Any, kind: type) -> tuple[str, object, str] | None:
    if not _is_subclass_of(kind, "numpy", "generic") or issubclass(kind, (float, str, bytes)):
        return None
    held = _strip_time_unit(value).item()
    return None if _is_subclass_of(type(held), "numpy", "generic") else ("", held, "")


def _get_loaded_attribute(module: str, name: str) -> object:
    """Return an attribute of a loaded module without running its code; None if it doesn't exist."""
    loaded = sys.modules.get(module)
    return vars(loaded).get(name) if type(loaded) is type(sys) else None


def _is_subclass_of(kind: type, module: str, name: str) -> bool:
    known = _get_loaded_attribute(module, name)
    return known is not None and any(one is known for one in _mro_of(kind))


def _strip_time_unit(value: Any) -> Any:
    times = _TIMES.get(value.dtype.kind)
    return value if times is None else value.astype(times)


def _to_list(value: Any) -> list[object]:
    return [list(one) if type(one) is tuple else one for one in value.tolist()]


def _build_series_form(value: Any) -> dict[str, object]:
    return {"name": value.name, "index": _to_list(value.index), "values": value.tolist()}


def _build_table_form(value: Any) -> dict[str, object]:
    rows = [list(row) for row in value.itertuples(index=False, name=None)]
    return {
        "columns": _to_list(value.columns),
        "dtypes": [str(one) for one in value.dtypes],
        "index": _to_list(value.index),
        "rows": rows,
    }
