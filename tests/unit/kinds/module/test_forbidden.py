"""Forbidden names in every spelling, and similar names that are allowed."""

from __future__ import annotations

import pytest

from assayd.kinds.module.forbidden import check_forbidden
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, load_policies
from assayd.static.python.scopes import build_scoped_tree
from assayd.static.python.source import parse_source


@pytest.fixture(scope="module")
def policies() -> PolicySet:
    return load_policies([get_shared_data_path("policies")])


@pytest.fixture
def rules(policies: PolicySet):
    policy = policies.get("module_validation")
    forbidden = policy.imports.denied | policy.adapter.forbidden

    def rules(text: str) -> list[tuple[str, int]]:
        tree = parse_source(text).tree
        assert tree is not None, text
        found = check_forbidden("adapter.py", text, build_scoped_tree(tree), forbidden, {"client", "adapter"})
        return [(finding.rule, finding.line or 0) for finding in found]

    return rules


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system('id')",
        "import os as o\no.system('id')",
        "import os.path\nos.system('id')",
        "x = 1\nfrom os import system",
        "x = 1\nfrom os import system as run",
        "import os; o = os\no.system('id')",
        "import os; a, b = os, 1\na.system('id')",
        "import os; o = p = os; q = p\nq.popen('id')",
        "import os\nrun = os.system",
        "import os\nfor o in (1, os): o.system('id')",
        "import os\ndef f(a, o=os, *, p=None): o.system('id')",
        "import os\nf = lambda *, o=os: o.system('id')",
        "import os\ngetattr(os, 'system')('id')",
        "import os\nvars(os)['system']",
        "import os\nos.__dict__['system']",
        "import os\n(o := os).system('id')",
        "import os, time\n(os if time else time).system('id')",
        "import operator, os\noperator.attrgetter('system')(os)('id')",
        "import pathlib\npathlib.os.system('id')",
        "import unittest.mock\nunittest.mock.sys.modules['os']",
        "import asyncio\nasyncio.create_subprocess_shell('id')",
        "import asyncio\nasyncio.base_events.subprocess.Popen('id')",
        "import sys\nsys.modules",
        "x = 1\neval('1')",
        "x = 1\nrun = exec",
        "x = 1\ncompile('x', 'x', 'exec')",
        "x = 1\n__import__('math')",
        "import client\nclient.os.system('id')",
        "from client import os\nos.system('id')",
        "import os\nos._exit(0)",
        "import os\nos.write(3, b'')",
        "import os\nos.__getattribute__('system')('id')",
        "import pytest\npytest.importorskip('os').system('id')",
        "import pytest\n@pytest.hookimpl\ndef f(): pass",
        "import shutil\nshutil.rmtree('/')",
    ],
)
def test_forbidden_name_is_found_at_its_line(rules, text: str) -> None:
    assert ("forbidden.name", 2) in rules(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import os\ngetattr(os, name)", "attribute.dynamic"),
        ("import sys\ngetattr(sys, 'mod' + 'ules')", "attribute.dynamic"),
        ("import os\nvars(os)['sys' + 'tem']", "attribute.dynamic"),
        ("import os\nos.__dict__[name]", "attribute.dynamic"),
        ("import os\nos.__getattribute__('sys' + 'tem')", "attribute.dynamic"),
        ("f = 1\ngetattr(f, '__globals__')", "attribute.internal"),
        ("import operator\noperator.attrgetter('a.__code__.co_code')", "attribute.internal"),
        ("from unittest import mock\nmock.patch.object(f, '__code__', g)", "attribute.internal"),
        ("f = 1\nmonkeypatch.setattr(target=f, name='__code__', value=1)", "attribute.internal"),
        ("f = 1\nf.__globals__", "attribute.internal"),
        ("f = 1\nf.__subclasses__()", "attribute.internal"),
        ("f = 1\nlen.__self__", "attribute.internal"),
        ("g = 1\ng.gi_frame.f_back", "attribute.internal"),
        ("t = 1\nt.get_stack()", "attribute.internal"),
        ("x = 1\n__builtins__['eval']", "name.dunder"),
        ("x = 1\n__loader__", "name.dunder"),
    ],
)
def test_way_to_what_is_forbidden_is_found(rules, text: str, rule: str) -> None:
    assert (rule, 2) in rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "import re\nre.compile('x')",
        "import os\nos.environ.get('KEY'); os.path.join('a'); os.getcwd()",
        "import sys\nsys.path.insert(0, '.'); sys.argv; sys.version_info",
        "class A:\n    def eval(self): return self.compile()\n    def compile(self): pass\nA().eval()",
        "import httpx\nclient = httpx.Client()\ngetattr(client, name)",
        "from unittest import mock\nwith mock.patch('os.system'), mock.patch.dict('sys.modules', {}): pass",
        "from client import gc, inspect\ngc(); inspect()",
        "import asyncio\nasyncio.run(x()); asyncio.current_task()",
        "x.__class__.__name__; x.__dict__; x.__name__; x.__doc__",
        "reading.co_ppm",
        "import os\nos.environ[name]; getattr(reading, name); hasattr(reading, '__len__')",
        "import json, datetime\njson.loads('1'); datetime.datetime.now()",
        "import pytest\npytest.fixture; pytest.mark.asyncio; pytest.raises; pytest.main([])",
        "system = print\nsystem('x')",
    ],
)
def test_ordinary_code_is_left_alone(rules, text: str) -> None:
    assert rules(text) == []


def test_each_use_says_what_to_do_instead(policies: PolicySet) -> None:
    text = "import sys\nsys.modules\n"
    tree = parse_source(text).tree
    assert tree is not None
    forbidden = policies.get("module_validation").adapter.forbidden
    [finding] = check_forbidden("test_adapter.py", text, build_scoped_tree(tree), forbidden, ())
    assert "patch.dict" in (finding.suggestion or "")
    assert (finding.file, finding.category, finding.snippet) == (
        "test_adapter.py",
        "forbidden_name",
        "sys.modules",
    )
