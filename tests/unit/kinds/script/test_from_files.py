"""Files on the command line as a script."""

import pytest

from assayd.errors import RequestError
from assayd.kinds.script.command_line import from_files
from assayd.ports.command_line import FileOptions


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("x.sh", "--policy shell --option argv='bash x.sh'"),
        ("x.js", "--policy javascript --option argv='node x.js'"),
        ("x.pl", "--policy NAME --option argv='PROGRAM x.pl'"),
    ],
)
def test_file_of_another_language_is_refused_with_the_option_that_runs_it(name: str, option: str) -> None:
    with pytest.raises(RequestError, match=f"{name} isn't Python; name the program that runs it: {option}"):
        from_files({name: b"echo hi\n"}, FileOptions())


def test_file_with_its_program_is_submitted() -> None:
    payload = from_files({"x.sh": b"echo hi\n"}, FileOptions(extra={"argv": "bash x.sh"}))
    assert payload == {"argv": ["bash", "x.sh"], "files": {"x.sh": "echo hi\n"}}


def test_python_needs_no_program() -> None:
    assert from_files({"x.py": b"print(1)\n"}, FileOptions()) == {"code": "print(1)\n"}
