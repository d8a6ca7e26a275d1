import pytest

from assayd.errors import ProviderError
from assayd.model.finding import Edit
from assayd.model.prompting import EditedPart, SourcePart
from assayd_chains.provider import FixRequest
from assayd_chains.providers.rules import RulesProvider

TEXT = "one\ntwo\nthree\nfour\n"


def edit(start: int, end: int, replacement: str) -> Edit:
    return Edit(start_line=start, end_line=end, replacement=replacement)


async def fixed(*edits: Edit) -> str:
    passage = SourcePart(name="code", language="python", text=TEXT)
    request = FixRequest(system="", user="", passage=passage, edits=edits)
    return (await RulesProvider().fix(request, timeout_s=1)).code


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([edit(2, 2, "TWO")], "one\nTWO\nthree\nfour\n"),
        ([edit(2, 3, "TWO\nTHREE\n")], "one\nTWO\nTHREE\nfour\n"),
        ([edit(1, 0, "zero")], "zero\none\ntwo\nthree\nfour\n"),
        ([edit(2, 3, "")], "one\nfour\n"),
        ([edit(4, 4, "4"), edit(1, 1, "1\n1b")], "1\n1b\ntwo\nthree\n4\n"),
        ([edit(1, 2, "x"), edit(2, 3, "y")], "x\nthree\nfour\n"),
        ([edit(1, 1, "x"), edit(1, 1, "x")], "x\ntwo\nthree\nfour\n"),
    ],
)
async def test_edits_replace_their_lines(edits, expected) -> None:
    assert await fixed(*edits) == expected


async def test_without_a_certain_edit_there_is_no_fix() -> None:
    with pytest.raises(ProviderError) as failed:
        await fixed()
    assert (failed.value.code, failed.value.retryable) == ("provider.no_edit", False)


async def test_certain_edits_of_all_passages_are_made_at_once() -> None:
    other = EditedPart(
        passage=SourcePart(name="b.py", language="python", text="import os\nx = 1\n"),
        edits=(Edit(start_line=1, end_line=1, replacement=""),),
    )
    request = FixRequest(
        system="",
        user="",
        passage=SourcePart(name="a.py", language="python", text="def f()\n    pass\n"),
        edits=(Edit(start_line=1, end_line=1, replacement="def f():"),),
        others=(other,),
    )
    reply = await RulesProvider().fix(request, timeout_s=1)
    assert reply.files == {"a.py": "def f():\n    pass\n", "b.py": "x = 1\n"}
    assert reply.reason == "Applied the certain edits in a.py, line 1; b.py, line 1."
