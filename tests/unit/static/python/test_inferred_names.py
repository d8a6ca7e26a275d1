"""Undefined names: an edit if they can mean only one thing, and none otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assayd.model.finding import Finding, Severity
from assayd.model.policy import ExecutionPolicy, ImportMode, ImportPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.static.python.imports import add_import_edits
from assayd.static.python.inferred_names import RULES, check_undefined_names
from assayd.static.python.security import scan_source
from assayd.static.python.source import parse_source
from assayd_chains.providers.rules import apply_edits, remove_overlapping_edits

OBSERVED = ImportPolicy(mode=ImportMode.OBSERVE)
OFFERED = frozenset({"collections", "datetime", "json", "os", "pathlib", "re", "typing", "urllib"})


@pytest.fixture(scope="module")
def extractor() -> ExecutionPolicy:
    return load_policies([get_shared_data_path("policies")]).get("extractor")


def found(text: str, policy: ImportPolicy = OBSERVED, **more: object) -> Sequence[Finding]:
    offered = OFFERED if policy is OBSERVED else None
    return tuple(check_undefined_names(parse_source(text), policy, **{"offered": offered, **more}))  # type: ignore[arg-type]


def mended(text: str, findings: Sequence[Finding]) -> str:
    return apply_edits(
        text, remove_overlapping_edits([finding.edit for finding in findings if finding.edit is not None])
    )


@pytest.mark.parametrize(
    ("text", "rule", "after"),
    [
        ("x = null\n", "name.other_language", "x = None\n"),
        ("x = [true, 'ä', false]\n", "name.other_language", "x = [True, 'ä', False]\n"),
        ("x = re.match('a', 'b')\n", "name.not_imported", "import re\nx = re.match('a', 'b')\n"),
        ("x = Path('a')\n", "name.not_imported", "from pathlib import Path\nx = Path('a')\n"),
        ('"""Doc."""\nx = json.loads(re.sub("a", "b", "c"))\n', "name.not_imported",
         '"""Doc."""\nimport json\nimport re\nx = json.loads(re.sub("a", "b", "c"))\n'),
        ("x = datetime.now()\n", "name.not_imported", "from datetime import datetime\nx = datetime.now()\n"),
        ("x = datetime.date(1, 2, 3) - datetime.timedelta(1)\n", "name.not_imported",
         "import datetime\nx = datetime.date(1, 2, 3) - datetime.timedelta(1)\n"),
        ("x = os.sep\n", "name.not_imported", "import os\nx = os.sep\n"),
        ("x = urllib.parse.quote('a')\n", "name.not_imported",
         "import urllib.parse\nx = urllib.parse.quote('a')\n"),
        ("total = 1\nx = totla\n", "name.undefined", "total = 1\nx = total\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("severity", [Severity.ERROR, Severity.WARNING])
def test_what_was_meant_has_its_edit(text: str, rule: str, after: str, severity: Severity) -> None:
    findings = found(text, severity=severity)

    assert {(finding.rule, finding.severity) for finding in findings} == {(rule, severity)}
    assert mended(text, findings) == after
    assert {rule.id for rule in RULES} >= {rule}


def test_an_import_that_fails_and_is_not_used_is_warned_of() -> None:
    [finding] = found("import pandas as pd\nx = 1\n")
    assert (finding.rule, finding.severity) == ("import.needless", Severity.WARNING)
    assert mended("import pandas as pd\nx = 1\n", [finding]) == "x = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = re.matches('a', 'b')\n",
        "x = f(re)\n",
        "x = datetime.time\n",
        "x = numpy.array([])\n",
        "x = nothing\n",
    ],
)
def test_a_name_that_may_be_had_in_more_ways_is_an_error_without_an_edit(text: str) -> None:
    findings = found(text)
    assert {(f.rule, f.severity, f.edit) for f in findings} == {("name.undefined", Severity.ERROR, None)}


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return re.match('a', 'b')\nre = None\n",
        "from x import *\ny = re.match('a', 'b')\n",
        "import pandas as pd\nx = pd.DataFrame()\n",
        "import pandas\n__all__ = ['pandas']\n",
        "try:\n    import pandas\nexcept ImportError:\n    pass\n",
        "import json\nx = 1\n",
        "from __future__ import annotations\nx = 1\n",
    ],
)
def test_nothing_is_said_where_a_doubt_is_left(text: str) -> None:
    assert found(text) == ()


def test_names_of_modules_that_somebody_else_looks_at_are_left_out() -> None:
    assert found("x: List = []\n", leaving_out={"typing"}) == ()
    assert len(found("x: List = []\n")) == 1


def test_only_what_the_policy_allows_is_imported(extractor: ExecutionPolicy) -> None:
    text = "x = re.match('a', 'b'), json.load, os.path.join('a', 'b'), shutil.move(1)\n"

    findings = found(text, extractor.imports)

    assert mended(text, findings).split("\n")[:3] == ["import os.path", "import re", text.rstrip()]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("import os\nx = os.path.join('a', 'b')\n", "import os.path\nx = os.path.join('a', 'b')\n"),
        ("import sched\nx = 1\n", "x = 1\n"),
        ("import os, re\nx = re.escape(os.sep)\n", "import os.path, re\nx = re.escape(os.sep)\n"),
        ("def f():\n    import os\n    return os.sep\n", "def f():\n    import os.path\n    return os.sep\n"),
        ("from subprocess import run\nx = 1\n", "x = 1\n"),
        ("import os\nx = os.path.join(os.sep, 'b')\n", "import os.path\nx = os.path.join(os.sep, 'b')\n"),
        ("import os\nx = os.path.join(os.environ['A'], 'b')\n", None),
        ("import os as o\nx = o.path.join('a', 'b')\n", None),
        ("import os\nos = 1\n", None),
        ("import sched\nsched.info('a')\n", None),
        ("import sched, sys\nx = 1\n", None),
        ("import sched; x = 1\n", None),
        ("def f():\n    import sched\n", None),
    ],
)
def test_refused_import_has_an_edit_when_nothing_depends_on_it(
    extractor: ExecutionPolicy, text: str, after: str | None
) -> None:
    source = parse_source(text)
    assert source.tree is not None
    given = scan_source(source, extractor.imports)

    findings = tuple(add_import_edits(given, source.tree, text, paths=True))

    assert len(findings) == len(given) >= 1
    assert mended(text, findings) == (text if after is None else after)
