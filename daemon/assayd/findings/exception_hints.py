"""Suggests fixes for exceptions, based on type, message, similar names, and the line with its values.

The guest controls all of these inputs. They only affect the wording of a hint and an edit of the guest's
code.

    AttributeError: 'list' object has no attribute 'appned'     Did you mean 'append'?
    KeyError: 'prcie'                                           Did you mean 'price'? …
    AttributeError: 'NoneType' object has no attribute 'x'      The value is None: …
    KeyError: 'amount'               … Values on this line: “row = {'id': 1, 'amount_eur': 2}”

Some fixes are derived from the expression on the failing line, or from the values on it.

The expression is a slice, a split, an operand or a json call:

    x, y, z = parts[2:4]                  The slice `[2:4]` gives at most 2 values for 3 names. …
    region, name = stem.split("_")        … Write `stem.rsplit('_', 1)`. …
    total = item["price"] + item["qty"]   `item['qty']` is the string '2'. Write `int(item['qty'])`.
    json.load(sys.stdin)                  … Write `[json.loads(line) for line in sys.stdin]`.

The values must indicate a single cause:

    IndexError      values[i + window], where i + window is 5      but the last index is 4
    TypeError       at = … 12:00:00+00:00; cutoff = … 00:00:00     cutoff has no time zone
    ValueError      int(parts[4]); parts = ('/', '2024', '05.csv') '05.csv' is the last part
    RecursionError  parent = 'a', in a function with a base case   the data contains a cycle

The submitted code controls lines and values. Values are parsed as literals. Both only affect the wording of
hints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from assayd.findings.source_text import get_line
from assayd.guest_results import RaisedException
from assayd.model.finding import Edit
from assayd.model.text_limits import MAX_EDITED_LINE_CHARS, shorten_text

_MAX_PARSED_CHARS = 200
_UNPACK_PATTERN = re.compile(r"(not enough|too many) values to unpack \(expected (\d{1,4})[,)]")
_OPERAND_PATTERN = re.compile(
    r"unsupported operand type\(s\) for \S+: '(?:int|float|str)' and '(?:int|float|str)'$"
)
_INTEGER_PATTERN = re.compile(r"[+-]?\d{1,40}")
_DECIMAL_PATTERN = re.compile(r"[+-]?\d{1,40}\.\d{1,40}")
_PARSE_ERRORS = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, OverflowError)


def suggest_fix_by_expression(record: RaisedException, error_type: str, line: str) -> str | None:
    """Return the fix that the line's expression indicates, or None if it indicates none."""
    match error_type:
        case "ValueError" if (found := _UNPACK_PATTERN.match(record.message)) is not None:
            return _suggest_unpacking_fix(parse_line(line), int(found[2]), is_short=found[1] == "not enough")
        case "TypeError" if _OPERAND_PATTERN.match(record.message):
            return _suggest_operand_fix(parse_line(line), dict(record.values))
        case "JSONDecodeError" if record.message.startswith("Extra data: line 2 column 1 "):
            return _suggest_json_lines_fix(parse_line(line))
        case _:
            return None


def parse_line(line: str) -> ast.Module:
    """Return the syntax tree of a line, even if the line opens a block.

    Only the first 200 characters are parsed. Return an empty module if they can't be parsed.
    """
    text = line.strip()[:_MAX_PARSED_CHARS]
    for tried in (text, f"{text} pass", f"{text.removeprefix('el')} pass"):
        try:
            return ast.parse(tried)
        except _PARSE_ERRORS:
            continue
    return ast.Module(body=[], type_ignores=[])


def evaluate_integer(node: ast.expr | None, values: Mapping[str, str]) -> int | None:
    """Return the value of an integer expression, or None if it can't be evaluated.

    The expression can contain constants, names with a value, sums and differences.
    """
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            text = values.get(name, "")
            return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = evaluate_integer(operand, values)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            one, other = evaluate_integer(left, values), evaluate_integer(right, values)
            if one is None or other is None:
                return None
            return one + other if isinstance(sign, ast.Add) else one - other
        case _:
            return None


def _suggest_unpacking_fix(tree: ast.Module, names: int, *, is_short: bool) -> str | None:
    match tree.body:
        case [ast.Assign(targets=[ast.Tuple(elts=targets)], value=value)] if len(targets) == names:
            if any(isinstance(target, ast.Starred) for target in targets):
                return None
        case _:
            return None
    match value:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(step=None) as bounds):
            return _suggest_slice_fix(name, bounds, names)
        case ast.Call(
            func=ast.Attribute(value=of, attr="split"), args=[ast.Constant() as separator], keywords=[]
        ) if not is_short:
            limited = f"{ast.unparse(of)}.rsplit({ast.unparse(separator)}, {names - 1})"
            return f"The string has more than {names} parts. Write `{limited}`: the first name gets the rest."
        case _:
            return None


def _suggest_slice_fix(name: str, bounds: ast.Slice, names: int) -> str | None:
    """Return the fix for a slice of too few or too many elements, or None if its size isn't constant."""
    low = 0 if bounds.lower is None else evaluate_integer(bounds.lower, {})
    high = evaluate_integer(bounds.upper, {})
    shown = f"[{ast.unparse(bounds)}]"
    if low is None or (bounds.upper is not None and high is None):
        return None
    if high is None:
        if low >= 0:
            return None
        size, wider = -low, f"[{-names}:]"
    elif (low < 0) != (high < 0):
        return None
    else:
        first = "" if bounds.lower is None else low
        size = high - low
        wider = f"[{first}:{low + names}]" if low >= 0 else f"[{high - names}:{high}]"
    if size == names:
        return f"`{name}` is shorter than the slice `{shown}` expects. Check `len({name})` before this line."
    values = f"{max(size, 0)} value{'s' * (size != 1)}"
    return f"The slice `{shown}` gives at most {values} for {names} names. Write `{name}{wider}`."


def _suggest_operand_fix(tree: ast.Module, values: Mapping[str, str]) -> str | None:
    """Return the fix if exactly one operand is a string and the string is a number, otherwise None."""
    strings = {
        ast.unparse(node): found
        for node in _iter_operands(tree)
        if isinstance(found := _lookup_value(node, values), str)
    }
    if len(strings) != 1:
        return None
    [(shown, found)] = strings.items()
    kind = (
        "int" if _INTEGER_PATTERN.fullmatch(found) else "float" if _DECIMAL_PATTERN.fullmatch(found) else None
    )
    return None if kind is None else f"`{shown}` is the string {found!r}. Write `{kind}({shown})`."


def _iter_operands(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield from (node.left, node.right)
        elif isinstance(node, ast.AugAssign):
            yield from (node.target, node.value)


def _lookup_value(node: ast.expr, values: Mapping[str, str]) -> object:
    """Return the value of a name, or of the name's item with a constant key, or None if it is unknown."""
    try:
        match node:
            case ast.Name(id=name):
                return ast.literal_eval(values[name])
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
                return ast.literal_eval(values[name])[key]
    except (*_PARSE_ERRORS, LookupError):
        return None
    return None


def _suggest_json_lines_fix(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="json"), attr="load" | "loads" as name), args=[source]
            ):
                lines = _build_lines_expression(source, is_file=name == "load")
                return (
                    f"The input has one JSON value per line. Write `[json.loads(line) for line in {lines}]`."
                )
    return None


def _build_lines_expression(source: ast.expr, *, is_file: bool) -> str:
    match source:
        case ast.Call(func=ast.Attribute(value=of, attr="read"), args=[]):
            return ast.unparse(of)
        case _:
            return f"{ast.unparse(source)}{'' if is_file else '.splitlines()'}"


_COUNT_PATTERN = re.compile(r"… (\d{1,12}) in all[\])]$")
_MAX_LINES_TO_DEF = 60
"""Maximum number of lines between a recursive call and the `def` of its function."""
_TIME_PATTERN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?"
_NAIVE_PATTERN = re.compile(_TIME_PATTERN)
_AWARE_PATTERN = re.compile(rf"{_TIME_PATTERN}[+-]\d\d:\d\d(?::\d\d)?")
_NOT_INTEGER_PATTERN = re.compile(r"invalid literal for int\(\) with base 10: ('[^'\\]{1,80}')")
_DEF = re.compile(r"[ \t]*+(?:async )?def (\w{1,80})\(")


def suggest_fix_by_values(record: RaisedException, error_type: str, text: str) -> str | None:
    """Return the fix that the values indicate, or None if they indicate none. `text` is the source."""
    match error_type:
        case "IndexError":
            return _suggest_index_fix(record, get_line(text, record.line) or "")
        case "TypeError" if "offset-naive and offset-aware" in record.message:
            return _suggest_timezone_fix(record)
        case "ValueError":
            return _suggest_path_fix(record)
        case "RecursionError":
            return _suggest_recursion_fix(record, text)
        case _:
            return None


def _suggest_timezone_fix(record: RaisedException) -> str | None:
    naive = [name for name, value in record.values if _NAIVE_PATTERN.fullmatch(value)]
    if len(naive) != 1 or not any(_AWARE_PATTERN.fullmatch(value) for _, value in record.values):
        return None
    return f"{naive[0]} has no time zone. Add one: {naive[0]}.replace(tzinfo=timezone.utc)."


def _suggest_path_fix(record: RaisedException) -> str | None:
    """Return the fix for converting a file name at the end of a split path to a number, or None.

    The result is None if the string isn't the last part of a value, or if it contains no dot.
    """
    found = _NOT_INTEGER_PATTERN.fullmatch(record.message)
    if found is None or "." not in found[1] or not found[1].isprintable():
        return None
    for name, value in record.values:
        if value[:1] in {"(", "["} and value[:-1].endswith(f", {found[1]}"):
            return (
                f"{found[1]} is the last part: this path has fewer parts than the line expects. "
                f"Check len({name}) first, or count from the end; {name}[-1] is the file name."
            )
    return None


def _suggest_recursion_fix(record: RaisedException, text: str) -> str | None:
    """Return the fix for a recursive function with a base case, or None if no base case is found.

    A base case is a `return` without a recursive call, at most 60 lines before the failing line.
    """
    if record.line is None:
        return None
    lines = text.split("\n", record.line)[max(record.line - _MAX_LINES_TO_DEF, 0) : record.line - 1]
    returns: list[str] = []
    for line in reversed(lines):
        if (found := _DEF.match(line)) is not None:
            if not any(f"{found[1]}(" not in each for each in returns):
                return None
            break
        if line.lstrip().startswith("return") or " return " in line:
            returns.append(line)
    else:
        return None
    if any(re.fullmatch(r"-?\d+(?:\.\d+)?", value) for _, value in record.values):
        return "The base case is never reached. Change the call so that each value comes closer to it."
    return (
        "The base case is never reached. If the data contains a cycle, track visited items in a set and "
        "return when one repeats; otherwise make each call's argument smaller."
    )


def _suggest_index_fix(record: RaisedException, line: str) -> str | None:
    """Return the fix for an index out of range, or None if no index on the line is known to be."""
    values = dict(record.values)
    for node in _find_subscripts(line):
        index, length = evaluate_integer(node.slice, values), _parse_length(values.get(node.value.id, ""))
        if index is not None and length is not None and not -length <= index < length:
            name = node.value.id
            if not length:
                return f"{name} is empty. Check that before indexing."
            if index < 0:
                needs = f"{ast.unparse(node)} needs {-index} elements, and there are {length}"
                return f"{needs}. Check len({name}) first."
            return (
                f"{ast.unparse(node)} asks for index {index}, and the last is {length - 1}. Do this only "
                f"`if {ast.unparse(node.slice)} < len({name})`, or change the range."
            )
    return None


class _Subscript(ast.Subscript):
    value: ast.Name


def _find_subscripts(line: str) -> list[_Subscript]:
    """Return the subscripts of plain names in a line, or none if the line isn't a complete statement."""
    nodes = (node for node in ast.walk(parse_line(line)) if isinstance(node, ast.Subscript))
    return [node for node in nodes if isinstance(node.value, ast.Name)]  # type: ignore[misc]


def _parse_length(text: str) -> int | None:
    counted = _COUNT_PATTERN.search(text)
    if counted is not None:
        return int(counted[1])
    try:
        value = ast.literal_eval(text)
    except _PARSE_ERRORS:
        return None
    return len(value) if isinstance(value, list | tuple | str) else None


_HINT_BY_TYPE: Mapping[str, str] = {
    "AttributeError": "Check the type of the value before this line.",
    "EOFError": "The input has ended. Pass the value as an input, or check for the end first.",
    "Error": "The input's format differs. Check it before decoding, or handle the error.",
    "ImportError": "Use only the modules that the policy allows.",
    "FrozenInstanceError": "The dataclass is frozen, so its fields can't be set. Return a new value, or use "
    "dataclasses.replace().",
    "IndexError": "The sequence is shorter. Check its length before indexing.",
    "JSONDecodeError": "The string isn't valid JSON. Check it before parsing, or handle the error.",
    "KeyError": "Use a key that exists, or supply a default: `d.get(key, default)`.",
    "MemoryError": "Process the data in smaller parts.",
    "ModuleNotFoundError": "Use only the modules that the policy allows.",
    "NameError": "Define or import the name before it is used.",
    "PermissionError": "Remove this operation: the policy doesn't allow it.",
    "RecursionError": "Add a base case. If the data can contain cycles, track visited items in a set. "
    "Otherwise use a loop.",
    "SystemExit": "Return a value instead of ending the process.",
    "TypeError": "Check the types of the values: one may be None, or a string instead of a number.",
    "UnboundLocalError": "Assign the variable on every code path that reaches this line.",
    "UnicodeDecodeError": "The bytes have another encoding. Name it, e.g. open(…, "
    "encoding='latin-1'), or pass errors='replace'.",
    "ValidationError": "Pass the fields that the model declares: rename one of them, or declare a "
    "default or Field(alias=…).",
    "UnicodeEncodeError": "Encode with errors='replace'.",
    "ValueError": "Check the string before converting it: match a pattern and use its group.",
    "ZeroDivisionError": "The divisor is 0, perhaps len() or sum() of an empty list. "
    "Handle that case before dividing.",
    "error": "Check the pattern, or escape data in it with re.escape().",
}
_DEFAULT_HINT = "Handle this case in the code."
_NONE_PATTERN = re.compile(r"\bNoneType\b")
_HINTS_BY_TEXT: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "TypeError",
        re.compile(r"unsupported operand type\(s\) for \S+: '(?:int|float|str)' and '(?:int|float|str)'$"),
        "One operand is a string. Convert it with int(…) or float(…).",
    ),
    (
        "TypeError",
        re.compile(r"can only concatenate str|must be str, not "),
        "Convert the number with str(…), or the string with int(…).",
    ),
    ("TypeError", re.compile(r"\bnot (?:'?(?:builtin_function_or_)?method'?|'?function'?)$"),
     "A function is passed instead of its result. Call it with parentheses: read_text()."),
    ("TypeError", re.compile(r"the JSON object must be str"),
     "The value is already parsed. Use it without json.loads()."),
    ("TypeError", re.compile(r"offset-naive and offset-aware"),
     "Only one of the values has a time zone. Set one on both, e.g. tzinfo=timezone.utc."),
    ("TypeError", re.compile(r"^'coroutine' object|coroutine"),
     "Write await before the call, in an async def function: a call alone returns a coroutine."),
    ("AttributeError", re.compile(r"^'coroutine' object"),
     "Write await before the call, in an async def function: a call alone returns a coroutine."),
    ("TypeError", re.compile(r"object is not callable"),
     "The object is a value, not a function. Remove the parentheses."),
    ("TypeError", re.compile(r"missing \d+ required|positional arguments? but|unexpected keyword"),
     "Pass the arguments that the function's def line declares."),
    ("TypeError", re.compile(r"^string indices must be integers"),
     "The value is a string, not a dict. Parse it with json.loads(), or loop over the values: d.values()."),
    ("TypeError", re.compile(r"^list indices must be integers or slices, not str"),
     "The value is a list. Take an element first: value[0]['key'], or loop over it."),
    ("TypeError", re.compile(r"unhashable type"), "Use a tuple or a string as the key."),
    ("ValueError", re.compile(r"(?:not enough|too many) values to unpack"),
     "The number of values differs. Collect the rest with a starred name (*first, last = … or "
     "first, *last = …), or limit the split: text.rsplit('_', 2)."),
    ("ValueError", re.compile(r"^time data .* does not match format"),
     "Adapt the format to the string: %Y is a year of four digits and %y of two, %m a month number, %B "
     "its full name and %b the first three letters, %d the day."),
    ("ValueError", re.compile(r"^unconverted data remains"),
     "The string is longer than the format. Cut it, or extend the format."),
    ("ValueError", re.compile(r"^Invalid isoformat string"),
     "Split the string, or parse it with strptime and a matching format."),
    ("ValueError", re.compile(r"^could not convert string to float|^invalid literal for int"),
     "The string isn't a number. Use another part of it, or match the digits with a pattern."),
    ("IndexError", re.compile(r"^no such group"),
     "The pattern has no such group. Use an existing one, or define it: (?P<year>…)."),
    ("JSONDecodeError", re.compile(r"^Extra data"),
     "The string has data after the first value. If each line is a value, use json.loads(line)."),
    ("JSONDecodeError", re.compile(r"^Expecting value: line 1 column 1"),
     "The string is empty or isn't JSON. Check the data that is read."),
    ("OSError", re.compile(r"Read-only file system"),
     "Only the work directory is writable. Write to a relative path, or below /tmp."),
    ("OSError", re.compile(r"No such file"),
     "The file doesn't exist: only submitted files do. Submit it, or correct the path."),
    ("FileNotFoundError", re.compile(r""), "The file doesn't exist. Pass the data as an input."),
    ("PermissionError", re.compile(r"open \("), "Only files of the work directory can be opened."),
)  # fmt: skip
_MISSING = re.compile(r"has no attribute '([^']{1,80})'$|^cannot import name '([^']{1,80})'")


_NONE_HINT = (
    "re.match() and re.search() return None if nothing matches; so does a function with no return "
    "statement. "
    "Fix the pattern, or check for None first."
)
_MATCH_CALL_PATTERN = re.compile(r"\b([A-Za-z_]\w*)\.(?:search|match|fullmatch)\(")
_MAX_SEARCHED_LINES = 5000
_LINE_CHARS = 300
"""Maximum characters of a line that are read."""
_SUBPROCESS_PATTERN = re.compile(r"\bsubprocess\b|\bPopen\(|\bcheck_output\(|\bcreate_subprocess")
_EXTERNAL_PROGRAM_PATTERN = re.compile(
    r"'(?:git|hg|svn|gh|docker|podman|kubectl|aws|gcloud|az|psql|mysql|curl|wget|ssh)'$"
)
"""Programs whose output depends on something outside of the container."""
_SUPPLY_OUTPUT_HINT = "Remove the call, and pass its output as an input."
_USE_STDLIB_HINT = "Do it with Python's standard library."
_PYDANTIC_V1_NAMES: Mapping[str, str] = {
    "ConfigDict": "an inner class Config",
    "RootModel": "a field __root__",
    "TypeAdapter": "parse_obj_as()",
    "computed_field": "a property, or a root_validator",
    "field_serializer": "json_encoders of the inner class Config",
    "field_validator": "validator (and model_dump() is dict(), model_json_schema() is schema())",
    "model_copy": "copy()",
    "model_dump": "dict()",
    "model_dump_json": "json()",
    "model_fields": "__fields__",
    "model_json_schema": "schema()",
    "model_validate": "parse_obj()",
    "model_validate_json": "parse_raw()",
    "model_validator": "root_validator",
}
"""Names of pydantic 2 with their equivalents in the image's version."""
_QUOTES = "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_NO_QUOTES = str.maketrans(dict.fromkeys(_QUOTES, '"'))


def suggest_fix_by_type(error_type: str) -> str:
    """Return the fix for exceptions of this type, or a general one for unknown types."""
    return _HINT_BY_TYPE.get(error_type.rpartition(".")[2], _DEFAULT_HINT)


def suggest_exception_fix(record: RaisedException, text: str = "") -> str:
    """Return the fix for this exception, followed by the values on its line, if there are any.

    `text` is the source.
    """
    seen = "; ".join(f"{name} = {value}" for name, value in record.values)
    there = f" Values on this line: {_QUOTES[0]}{_to_one_line(seen)}{_QUOTES[1]}." if seen else ""
    return _choose_hint(record, text) + there


def _choose_hint(record: RaisedException, text: str) -> str:
    error_type = record.error_type.rpartition(".")[2]
    if record.meant is not None:
        if "[" in record.meant:
            return f"The key is in a nested object. Use {record.meant}."
        other = " Otherwise use a key that exists." if error_type == "KeyError" else ""
        return f"Did you mean '{record.meant}'?{other}"
    if error_type in {"AttributeError", "TypeError"} and _NONE_PATTERN.search(record.message):
        return f"The value is None: {_explain_none_value(record, text)}"
    by_text = (
        hint for name, seen, hint in _HINTS_BY_TEXT if name == error_type and seen.search(record.message)
    )
    return (
        _suggest_fix_by_line(record, error_type, text)
        or suggest_fix_by_expression(record, error_type, get_line(text, record.line) or "")
        or suggest_fix_by_values(record, error_type, text)
        or next(by_text, None)
        or suggest_fix_by_type(record.error_type)
    )


def _suggest_fix_by_line(record: RaisedException, error_type: str, text: str) -> str | None:
    """Return the fix that follows from the line and its values, or None if there is none."""
    line = get_line(text, record.line) or ""
    if error_type == "FileNotFoundError" and _SUBPROCESS_PATTERN.search(line):
        told = "The image doesn't have this program."
        external = _EXTERNAL_PROGRAM_PATTERN.search(record.message)
        return f"{told} {_SUPPLY_OUTPUT_HINT if external else _USE_STDLIB_HINT}"
    if error_type in {"IndexError", "ValueError"} and any("\\\\" in value for _, value in record.values):
        return "The path has backslashes. Split it with pathlib.PureWindowsPath."
    if error_type == "ValidationError" and (alike := _suggest_similar_field(record)) is not None:
        return alike
    if (
        error_type in {"ImportError", "AttributeError"}
        and (other := _suggest_pydantic_v2_fix(record)) is not None
    ):
        return f"The image has pydantic 1.10. Use {other}."
    return None


def _explain_none_value(record: RaisedException, text: str) -> str:
    """Return the origin of a None value. If an earlier line assigned the value, quote that line."""
    lines = text.split("\n", _MAX_SEARCHED_LINES)[: min((record.line or 1) - 1, _MAX_SEARCHED_LINES)]
    for name in (each for each, value in record.values if value == "None"):
        assigned = re.compile(rf"\s*+{re.escape(name)}\s*+=[^=]")
        given = [
            (number, line.strip()[:_LINE_CHARS])
            for number, line in enumerate(lines, 1)
            if name in line and assigned.match(line)
        ]
        if given:
            number, line = given[-1]
            pattern = _MATCH_CALL_PATTERN.search(line)
            cause = _NONE_HINT if pattern is None else _explain_no_match(pattern[1], lines, name)
            return f"{name} was assigned in line {number} ({_quote_line(line)}). {cause}"
    return _NONE_HINT


def _explain_no_match(pattern: str, lines: Sequence[str], name: str) -> str:
    """Return the fix for a pattern that doesn't match. If a line compiles the pattern, quote that line."""
    bound = re.compile(rf"\s*+{re.escape(pattern)}\s*+=")
    made = next((n for n, line in enumerate(lines, 1) if bound.match(line)), None)
    where = f" in line {made} ({_quote_line(lines[made - 1])})" if made else ""
    return f"The pattern{where} doesn't match the string. Fix the pattern, or check {name} for None first."


def _quote_line(line: str) -> str:
    return shorten_text(line.strip(), 100)


def _suggest_pydantic_v2_fix(record: RaisedException) -> str | None:
    found = _MISSING.search(record.message)
    return None if found is None else _PYDANTIC_V1_NAMES.get(found[1] or found[2] or "")


def _suggest_similar_field(record: RaisedException) -> str | None:
    """Return the fix for a model's missing field, or None.

    The result is None unless exactly one passed name begins with the field's name, or the reverse.
    """
    missing = re.findall(r"^(\w{3,60})\n +field required", record.message, re.MULTILINE)
    given = [key for _, value in record.values for key in re.findall(r"'(\w{3,60})':", value)]
    for field in missing:
        alike = [key for key in given if key.startswith(field) or field.startswith(key)]
        if len(alike) == 1:
            given_as = alike[0]
            either = f"pass {field!r}, or declare Field(alias={given_as!r})"
            return f"{given_as!r} is passed but {field!r} is declared: {either}."
    return None


def _to_one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).translate(_NO_QUOTES)


def find_misspelling_edit(record: RaisedException, text: str) -> Edit | None:
    """Return the edit of a misspelled name, or None if no edit is certain.

    An edit is certain only if the guest reports so and the name occurs exactly once in the line.
    """
    line = get_line(text, record.line)
    wrong = _find_misspelled_name(record)
    if record.meant is None or not record.certain or line is None or wrong is None or record.line is None:
        return None
    if len(line) > MAX_EDITED_LINE_CHARS:
        return None
    pattern, replacement = (
        (rf"(['\"]){re.escape(wrong)}\1", rf"\g<1>{record.meant}\g<1>")
        if record.error_type == "KeyError"
        else (rf"(?<!\w){re.escape(wrong)}(?!\w)", record.meant)
    )
    if not record.meant.isidentifier() and not re.fullmatch(r"[\w .-]+", record.meant):
        return None
    if len(re.findall(pattern, line)) != 1:
        return None
    changed = re.sub(pattern, replacement, line)
    return Edit(start_line=record.line, end_line=record.line, replacement=changed)


def _find_misspelled_name(record: RaisedException) -> str | None:
    if record.error_type == "KeyError":
        found = re.fullmatch(r"'([^'\\]{1,80})'", record.message)
        return None if found is None else found[1]
    found = _MISSING.search(record.message)
    return None if found is None else found[1] or found[2]
