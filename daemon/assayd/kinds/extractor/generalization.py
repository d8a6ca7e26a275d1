"""Checks whether an extractor reads the path, based on its results for paths similar to the samples.

    return {"client": "CLIENT-ABC", "year": int(parts[3])}   quality.hard_coded   on 'client'
    return {"status": "ok"}                                  quality.constant
    return SAMPLES.get(path, {})                             quality.hard_coded
    return {"id": hash(path)}                                quality.not_from_path

Pure. Because guest code controls the results, they only cause warnings.

Similar paths have a different number or name at one position.

    /data/ACME/2024/report.csv   ->   /data/ACME/2023/report.csv, /data/BDNF/2024/report.csv, …

An extractor that reads the path returns different fields for these paths, whereas an extractor with
hard-coded results doesn't. Pure and deterministic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from assayd.model.submission import JsonValue

MAX_SIMILAR_TO_FIRST, MAX_SIMILAR_TO_SECOND = 6, 2
"""Maximum similar paths of the first and of the second sample path; a single sample gets both numbers."""
_MAX_CODE_PIECES = 4
"""Maximum pieces that the code also contains: they come first, because they may be hard-coded."""
_MAX_CODE_CHARS = 50_000
_MAX_SAMPLE_CHARS = 512
"""Characters above which sample paths are skipped, because their cost grows with their length."""
_PIECE_PATTERN = re.compile(r"[^\W\d_]+|\d+")
_YEAR_PATTERN = re.compile(r"(?:19|20)\d\d")
_MIN_INNER_CHARS = 3
"""Characters up to which pieces are replaced only as whole words, because longer words may contain them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarPath:
    """A sample path in which every occurrence of `old` is replaced by a piece of the same form."""

    path: str
    sample: str
    old: str
    new: str

    @property
    def is_number(self) -> bool:
        """Return whether the replaced part of the path is a decimal number."""
        return self.old.isdecimal()

    @property
    def is_year(self) -> bool:
        """Return whether a year was replaced by another year."""
        return _YEAR_PATTERN.fullmatch(self.old) is not None


def build_similar_paths(samples: Sequence[str], code: str = "") -> tuple[SimilarPath, ...]:
    """Return paths similar to the first two sample paths, except to paths that are too long.

    Pieces that the code contains are varied first.
    """
    found: list[SimilarPath] = []
    chosen = list(dict.fromkeys(samples))[:2]
    room = (
        (MAX_SIMILAR_TO_FIRST, MAX_SIMILAR_TO_SECOND)
        if len(chosen) > 1
        else (MAX_SIMILAR_TO_FIRST + MAX_SIMILAR_TO_SECOND,)
    )
    for sample, most in zip(chosen, room, strict=True):
        if len(sample) <= _MAX_SAMPLE_CHARS:
            found += islice(_vary_path(sample, code[:_MAX_CODE_CHARS]), most)
    return tuple(found)


def split_into_pieces(text: str) -> list[str]:
    """Return the sequences of letters and of digits in a string, in order."""
    return _PIECE_PATTERN.findall(text)


def _vary_path(sample: str, code: str) -> Iterator[SimilarPath]:
    """Yield copies of a path with one piece replaced. Pieces that also occur in the code come first."""
    known = list(dict.fromkeys(reversed(split_into_pieces(sample))))
    named = [piece for piece in known if len(piece) > 1 and piece in code][:_MAX_CODE_PIECES]
    for old in dict.fromkeys((*_interleave_names(named), *_interleave_names(known))):
        new = _next_number(old) if old.isdecimal() else _shift_letters(old)
        changed = _replace_piece(sample, old, new)
        if changed != sample:
            yield SimilarPath(path=changed, sample=sample, old=old, new=new)


def _interleave_names(known: Sequence[str]) -> Iterator[str]:
    """Yield the given names and numbers alternately."""
    numbers = [piece for piece in known if piece.isdecimal()]
    names = [piece for piece in known if not piece.isdecimal()]
    return (piece for pair in zip_longest(names, numbers) for piece in pair if piece is not None)


def _replace_piece(path: str, old: str, new: str) -> str:
    if len(old) >= _MIN_INNER_CHARS:
        return path.replace(old, new)
    return _PIECE_PATTERN.sub(lambda piece: new if piece[0] == old else piece[0], path)


def _next_number(digits: str) -> str:
    """Return the next or previous number of the same length. Most months and days stay valid."""
    number = int(digits)
    other = number - 1 if number % 10 > 1 or (number % 10 and number > 1) else number + 1
    return f"{other:0{len(digits)}d}"


def _shift_letters(name: str) -> str:
    """Return a name of the same length and case, with each letter replaced by the next one."""
    return "".join(_next_letter(letter) for letter in name)


def _next_letter(letter: str) -> str:
    if letter in "zZ":
        return "a" if letter == "z" else "A"
    return chr(ord(letter) + 1) if letter.isascii() else letter


Result = Mapping[str, JsonValue]
Fields = Mapping[str, JsonValue]

MAX_FIELDS = 200
_MAX_ELEMENTS = 20
_FEW = 4
"""Minimum similar paths for a finding about all of them."""
_MIN_DIGITS = 3
"""Digits below which a number may occur in a path by chance."""
_MIN_PART_CHARS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarResult:
    """A similar path with its result, which is None if the call raised or didn't return a dict."""

    similar: SimilarPath
    result: Result | None

    @property
    def fields(self) -> Fields:
        """Return the non-empty fields of the result by name."""
        return drop_empty_fields(list_result_fields(self.result or {}))


def list_result_fields(result: Result) -> dict[str, JsonValue]:
    """Return at most `MAX_FIELDS` fields of a result by name.

    The name of a nested field includes the outer field's name.
    """
    found: dict[str, JsonValue] = {}
    left = list(result.items())[::-1]
    while left and len(found) < MAX_FIELDS:
        name, value = left.pop()
        if isinstance(value, dict) and value:
            left += [(f"{name}.{inner}", each) for inner, each in value.items()][::-1]
        else:
            found[name] = value
    return found


def flatten_fields(result: Result) -> Fields:
    """Return the non-empty fields. Replace a short list by one field per element, named by its index."""
    found: dict[str, JsonValue] = {}
    for name, value in drop_empty_fields(list_result_fields(result)).items():
        if isinstance(value, list) and len(value) <= _MAX_ELEMENTS:
            found |= {f"{name}[{place}]": each for place, each in enumerate(value)}
        else:
            found[name] = value
    return drop_empty_fields(found)


def drop_empty_fields(fields: Fields) -> Fields:
    """Return the fields that are neither None nor empty."""
    return {name: value for name, value in fields.items() if not is_empty(value)}


def is_empty(value: JsonValue) -> bool:
    """Return whether a value is None, empty, or a list of only such values."""
    if isinstance(value, list):
        return all(map(is_empty, value))
    return value is None or value in ("", {})


def to_path_text(value: JsonValue) -> str:
    """Return a value as the string that a path could contain."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


# --- single fields that don't change


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedField:
    """A field whose value occurs in the path but stays the same if that part of the path changes."""

    name: str
    value: JsonValue
    similar: SimilarPath
    moved: tuple[str, ...]
    """Fields that do change with the path."""


def find_unchanged_fields(
    samples: Mapping[str, Result], tried: Sequence[SimilarResult]
) -> list[UnchangedField]:
    """Return each field whose value occurs in the path but stays the same if that part changes."""
    found: dict[str, tuple[JsonValue, SimilarPath]] = {}
    for path, result in samples.items():
        own = [(one.similar, flatten_fields(one.result or {})) for one in tried if one.similar.sample == path]
        for name, value in flatten_fields(result).items() if own else ():
            text = to_path_text(value)
            touching = [
                each for each in own if each[0].old in text and _contains_piece(value, each[0].old, path)
            ]
            kept = [similar for similar, leaves in touching if leaves.get(name) == value]
            if kept and len(kept) == len(touching):
                found.setdefault(name, (value, kept[0]))
    moved = _find_changed_fields(samples, tried) if found else ()
    return [
        UnchangedField(name=name, value=value, similar=similar, moved=moved)
        for name, (value, similar) in found.items()
    ]


def _find_changed_fields(samples: Mapping[str, Result], tried: Sequence[SimilarResult]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for one in tried:
        before, after = list_result_fields(samples[one.similar.sample]), list_result_fields(one.result or {})
        names |= {name: None for name in before if after.get(name) != before[name]}
    return tuple(names)


def _contains_piece(value: JsonValue, piece: str, path: str) -> bool:
    """Return whether a distinctive value occurs in the path and contains `piece`."""
    text = to_path_text(value)
    own = split_into_pieces(text)
    if piece not in own or not is_distinctive(text) or isinstance(value, list | bool):
        return False
    return contains_pieces(text, path) and text != path


def is_distinctive(text: str) -> bool:
    """Return whether a string is too long to occur in a path by chance."""
    return len(text) >= _MIN_DIGITS or (len(text) > 1 and not text.isdecimal() and not text.isalpha())


def contains_pieces(text: str, path: str) -> bool:
    """Return whether a path contains the pieces of a string consecutively."""
    own, all_pieces = split_into_pieces(text), split_into_pieces(path)
    return any(all_pieces[at : at + len(own)] == own for at in range(len(all_pieces) - len(own) + 1))


def find_hardcoded_fields(
    samples: Mapping[str, Result], known: Sequence[str]
) -> list[tuple[str, JsonValue, str]]:
    """Return the fields, except `known`, with one value for all paths, although some paths don't contain it.

    Each field is returned with its value and the first path that doesn't contain this value.
    """
    if len(samples) < 2:
        return []
    (_, result), *_ = samples.items()
    found: list[tuple[str, JsonValue, str]] = []
    for name, value in drop_empty_fields(list_result_fields(result)).items():
        text = to_path_text(value)
        if name in known or not is_distinctive(text) or isinstance(value, list | bool):
            continue
        if all(list_result_fields(other).get(name) == value for other in samples.values()):
            lacking = [path for path in samples if text.casefold() not in path.casefold()]
            if lacking and any(contains_pieces(text, path) for path in samples):
                found.append((name, value, lacking[0]))
    return found


# --- whole results


def is_independent_of_path(samples: Mapping[str, Result], tried: Sequence[SimilarResult]) -> bool:
    """Return whether all paths, including similar paths, have the same result.

    The result is False with fewer than four similar paths or, if there are none, fewer than two samples.
    """
    results = [*samples.values(), *(one.result for one in tried)]
    enough = len(samples) > 1 if not tried else len(tried) >= _FEW
    return enough and all(result == results[0] for result in results)


def is_fixed_outside_samples(samples: Mapping[str, Result], tried: Sequence[SimilarResult]) -> bool:
    """Return whether all similar paths have one common result that differs from the samples' results.

    The result is False with fewer than four similar paths, or if none of them has a different number.
    """
    if len(tried) < _FEW or not any(one.similar.is_number for one in tried):
        return False
    results = [one.fields for one in tried]
    same = all(result == results[0] for result in results)
    return same and all(
        drop_empty_fields(list_result_fields(result)) != results[0] for result in samples.values()
    )


def depends_only_on_shape(samples: Mapping[str, Result], tried: Sequence[SimilarResult]) -> bool:
    """Return whether values depend only on the path's shape (like its length), not on its pieces.

    Booleans are ignored, because they can depend on a property that all compared paths share.
    """
    if len(tried) < _FEW or any(one.result != samples[one.similar.sample] for one in tried):
        return False
    values = [(path, value) for path, result in samples.items() for value in flatten_fields(result).values()]
    plain = [value for _, value in values if not isinstance(value, bool)]
    return bool(plain) and not any(_is_derived_from(value, path) for path, value in values)


def depends_on_whole_path(samples: Mapping[str, Result], tried: Sequence[SimilarResult]) -> bool:
    """Return whether all values change with every change of the path but don't occur in it, like a hash."""
    if len(tried) < _FEW:
        return False
    for path, result in samples.items():
        if any(
            _is_derived_from(value, path) for value in drop_empty_fields(list_result_fields(result)).values()
        ):
            return False
    results = [json.dumps(one.result, sort_keys=True) for one in tried]
    before = [json.dumps(samples[one.similar.sample], sort_keys=True) for one in tried]
    changed = all(one != other for one, other in zip(results, before, strict=True))
    return changed and len(set(results)) > len(results) // 2 and all(one.fields for one in tried)


def _is_derived_from(value: JsonValue, path: str) -> bool:
    text, folded = to_path_text(value).casefold(), path.casefold()
    if isinstance(value, bool):
        return False
    if len(text) > 1 and text in folded:
        return True
    numbers = {int(piece) for piece in split_into_pieces(path) if piece.isdecimal()}
    if text.isdecimal() and len(text) <= _MAX_NUMBER_DIGITS and int(text) in numbers:
        return True
    return any(len(piece) >= _MIN_PART_CHARS and piece in text for piece in split_into_pieces(folded))


_MAX_NUMBER_DIGITS = 100


def only_rewrites_path(samples: Mapping[str, Result], tried: Sequence[SimilarResult]) -> bool:
    """Return whether each value is only its path in a different case, split or order, for all paths.

    An extractor that rejects a similar path reads the path.
    """
    results = [*samples.items(), *((one.similar.path, one.result or {}) for one in tried)]
    first, result = results[0]
    if not any(_is_path(value, first) for value in list_result_fields(result).values()):
        return False
    same = _find_constant_fields([result for _, result in results]) if len(results) >= _FEW else frozenset()
    for path, result in results:
        fields = drop_empty_fields(list_result_fields(result))
        values = [value for name, value in fields.items() if name not in same]
        if not values or not all(_is_path(value, path) for value in values):
            return False
    return True


def _find_constant_fields(results: Sequence[Result]) -> frozenset[str]:
    """Return the fields whose values are equal in all results."""
    first, *others = map(list_result_fields, results)
    return frozenset(
        name for name, value in first.items() if all(name in one and one[name] == value for one in others)
    )


def _is_path(value: JsonValue, path: str) -> bool:
    joined = "".join(map(to_path_text, value)) if isinstance(value, list) else to_path_text(value)
    plain, own = _strip_non_letters(joined), _strip_non_letters(path)
    return bool(own) and plain in (own, own[::-1])


def _strip_non_letters(text: str) -> str:
    return "".join(split_into_pieces(text)).casefold()


def find_varying_fields(results: Sequence[Result]) -> list[str]:
    """Return the fields whose values differ between runs on the same path, or none without results."""
    first, *others = map(list_result_fields, results) if results else ({},)
    names = {name: None for one in (first, *others) for name in one}
    return [name for name in names if any(one.get(name) != first.get(name) for one in others)]


# --- inconsistent results


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInconsistency:
    """Two similar paths with inconsistent results: different field names, or different types of a field."""

    first: str
    second: str
    name: str
    one: str
    other: str


def iter_inconsistencies(
    samples: Mapping[str, Result], tried: Sequence[SimilarResult]
) -> Iterator[ResultInconsistency]:
    """Yield inconsistencies between similar samples, and between samples and similar paths."""
    by_form: dict[str, str] = {}
    by_loose_form: dict[str, str] = {}
    for path, result in samples.items():
        if result:
            first = by_form.setdefault(form := _describe_path_shape(path), path)
            yield from _check_field_names(first, samples[first], path, result)
            first = by_loose_form.setdefault(_ZEROS_PATTERN.sub("0", form), path)
            yield from _check_field_types(first, samples[first], path, result)
    yield from _check_numbered_names(samples)
    for one in tried:
        sample = one.similar.sample
        if one.result and one.similar.is_year:
            yield from _check_field_names(sample, samples[sample], one.similar.path, one.result)
            yield from _check_field_types(sample, samples[sample], one.similar.path, one.result)
        elif one.result and (name := _find_path_named_field(one.similar, samples[sample], one.result)):
            yield ResultInconsistency(
                first=sample, second=one.similar.path, name="", one=name[0], other=name[1]
            )


def _find_path_named_field(similar: SimilarPath, before: Result, after: Result) -> tuple[str, str] | None:
    """Return a field whose name contains a number from the path, and its name in the other result.

    Return None if there is none. Names without numbers are ignored, because they can be intended:
    ``{"region": "north"}`` for ``/region=north/``.
    """
    for name in before:
        if (
            name not in after
            and similar.old in split_into_pieces(name)
            and _is_numbered_path_part(name, similar.sample)
        ):
            renamed = name.replace(similar.old, similar.new)
            return (name, renamed) if renamed in after else None
    return None


def _check_numbered_names(samples: Mapping[str, Result]) -> Iterator[ResultInconsistency]:
    """Yield inconsistencies between the first sample and others: field names with numbers from the path."""
    (first, one), *others = samples.items()
    for path, other in others:
        mine = [
            n
            for n in one
            if n not in other and _is_numbered_path_part(n, first) and not contains_pieces(n, path)
        ]
        theirs = [
            n
            for n in other
            if n not in one and _is_numbered_path_part(n, path) and not contains_pieces(n, first)
        ]
        if mine and theirs:
            yield ResultInconsistency(first=first, second=path, name="", one=mine[0], other=theirs[0])


def _is_numbered_path_part(name: str, path: str) -> bool:
    return any(piece.isdecimal() for piece in split_into_pieces(name)) and contains_pieces(name, path)


_ZEROS_PATTERN = re.compile("0+")


def _describe_path_shape(path: str) -> str:
    """Return the shape of a path: keep lowercase words, and replace every other piece by its type."""
    words = path
    for piece in sorted(set(split_into_pieces(path)), key=len, reverse=True):
        if piece.isdecimal():
            words = words.replace(piece, "0" * len(piece))
        elif piece.isupper():
            words = words.replace(piece, "A")
    return words


def _check_field_names(first: str, one: Result, second: str, other: Result) -> Iterator[ResultInconsistency]:
    """Yield an inconsistency if each of two results has a field name that the other result lacks."""
    missing, added = [n for n in one if n not in other], [n for n in other if n not in one]
    if missing and added:
        yield ResultInconsistency(first=first, second=second, name="", one=missing[0], other=added[0])


def _check_field_types(first: str, one: Result, second: str, other: Result) -> Iterator[ResultInconsistency]:
    mine, theirs = drop_empty_fields(list_result_fields(one)), drop_empty_fields(list_result_fields(other))
    for name in mine.keys() & theirs.keys():
        kinds = _classify_value(mine[name]), _classify_value(theirs[name])
        if kinds[0] != kinds[1]:
            yield ResultInconsistency(first=first, second=second, name=name, one=kinds[0], other=kinds[1])


def _classify_value(value: JsonValue) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "str"
        case list():
            return "list"
    return "dict"
