import pytest

from assayd.kinds.extractor.taken_fields import find_extracted_fields

SAMPLE = """
import re
from pathlib import PurePosixPath

MONTHS = {"Q1": 1}

def extract(path: str) -> dict:
    parts = PurePosixPath(path).parts
    found = re.search(r"Q([1-4])", path)
    quarter = int(found[1]) if found else None
    _, client = parts[-4].split("-", 1)
    result = {"client_id": client, "year": int(parts[-3]), "quarter": quarter, "source": "erp"}
    result["start_month"] = 3 * quarter - 2
    result["first"] = MONTHS[parts[-2]]
    result["label"] = f"Q{quarter}"
    result.update(stem=parts[-1].rsplit(".", 1)[0], shout=parts[-1].upper())
    return result
"""


def fields(text: str) -> dict[str, bool]:
    return {one.name: one.computed for one in find_extracted_fields(text, "extract")}


def test_fields_of_a_result_are_parts_of_the_path_or_computed() -> None:
    found = fields(SAMPLE)
    assert [name for name, computed in found.items() if not computed] == [
        "client_id", "year", "quarter", "stem"
    ]  # fmt: skip
    assert [name for name, computed in found.items() if computed] == [
        "source", "start_month", "first", "label", "shout"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def extract(path", {}),
        ("def other(path): return {'a': path}", {}),
        ("def extract(path): return dict(a=path, b=len(path))", {"a": False, "b": True}),
        ("def extract(path): return {'a': {'nested': 1}}", {"a": True}),
        ("def extract(path):\n x = path\n x += '/'\n return {'a': x}", {"a": True}),
        ("def extract(path):\n for p in path.split('/'): pass\n return {'a': p}", {"a": False}),
        ("def extract(path):\n a = b\n b = a\n return {'a': a}", {"a": False}),
        ("def extract(path):\n a = b or 1\n b = a\n return {'a': a}", {"a": True}),
        ("def extract(path): return {'': path, 'a\\n': path, 'x' * 2: path}", {}),
    ],
)
def test_form_decides(text: str, found: dict[str, bool]) -> None:
    assert fields(text) == found


def test_names_that_lead_to_each_other_many_times_are_followed_once() -> None:
    doubling = "".join(f" a{n} = a{n + 1} or a{n + 1}\n" for n in range(35))
    assert fields(f"def extract(path):\n{doubling} a35 = path\n return {{'a': a0}}") == {"a": False}
