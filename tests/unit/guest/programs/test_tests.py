"""Tests of a solution in another process: passed values, refusals, and the cost of a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.guests.guest_runner import guest_runner
from support.guests.solution_runs import passed, prepared, run_tests

STACK = """
class Empty(LookupError):
    pass

class Stack:
    kind = "stack"
    def __init__(self, items=()):
        self.items = list(items)
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        if not self.items:
            raise Empty("nothing left")
        return self.items.pop()
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)
    def __eq__(self, other):
        return True
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.items = []
"""

CROSSING = {
    "in place": ("def f(a, b):\n    a.sort(); a[0].append(9); b['k'] = a\n",
                 "a = [[2], [1]]\nb = {}\nf(a, b)\nassert a == [[1, 9], [2]] and b['k'] is a\nassert True"),
    "aliases": ("def f(a):\n    return a\n", "x = [1]\nassert f(x) is x"),
    "cycles": ("def f(a):\n    a.append(a)\n    return a\n", "x = []\ny = f(x)\nassert y is x and x[0] is x"),
    "default factories": (
        "from collections import defaultdict\ndef f(d):\n    d['x']\n    return defaultdict(lambda: [7], a=1)\n",
        "from collections import defaultdict\nd = defaultdict(lambda: 5)\ngot = f(d)\n"
        "assert d == {'x': 5} and got == {'a': 1} and got['b'] == [7] and got == {'a': 1, 'b': [7]}"),
    "sets": ("def f(s):\n    s.add(3)\n    return frozenset(s)\n", "s = {1}\nassert f(s) == {1, 3} == s"),
    "odd values": (
        "def f(*v):\n    return v\n",
        "import math\nfrom decimal import Decimal\nfrom datetime import date\nfrom fractions import Fraction\n"
        "v = (1, True, None, 1.5, 'é\\ud800', b'x', 2j, Decimal('1.10'), date(2024, 1, 2), Fraction(1, 3), "
        "range(3), ..., (1, (2,)), frozenset({1}), 10**400, -0.0, float('inf'), {(1, 2): [3]})\n"
        "got = f(*v)\nassert got == v and list(map(type, got)) == list(map(type, v))\nassert math.isnan(f(math.nan)[0])"),
    "collections": (
        "from collections import *\ndef f(d, c, q):\n    d['new'].append(1); c['a'] += 1; q.append(2)\n    return OrderedDict(a=1)\n",
        "from collections import *\nd, c, q = defaultdict(list), Counter('a'), deque([1], maxlen=None)\n"
        "assert f(d, c, q) == OrderedDict(a=1) and d == {'new': [1]} and c['a'] == 2 and q == deque([1, 2])"),
    "subclasses": (
        "from collections import namedtuple\nclass N(int): pass\nP = namedtuple('P', 'x y')\ndef f():\n    return [N(3), P(1, 2)]\n",
        "got = f()\nassert got == [3, (1, 2)] and type(got[0]) is int and type(got[1]) is tuple"),
    "exceptions": (
        "def f(x):\n    return {'a': 1}[x]\n",
        "try:\n    f('b')\nexcept KeyError as problem:\n    assert problem.args == ('b',)\nelse:\n    raise AssertionError"),
    "generators": (
        "def f():\n    n = 0\n    while True:\n        yield n\n        n += 1\n",
        "from itertools import islice\ng = f()\nassert next(g) == 0\nassert list(islice(f(), 4)) == [0, 1, 2, 3]"),
    "callbacks": (
        "def f(function, items):\n    return [function(item) for item in items] + [len(items)]\n",
        "def twice(x):\n    return 2 * x\nassert f(twice, [1, 2]) == [2, 4, 2]\nassert f(lambda x: x + 1, [1]) == [2, 1]\nassert f(abs, [-1]) == [1, 1]"),
    "nested calls": (
        "def f(n, back=None):\n    return n if back is None else back(n) + 1\n",
        "def back(n):\n    return f(n - 1, back if n > 1 else None)\nassert f(3, back) == 3"),
    "closures": ("def f(n):\n    return lambda x: x + n\n", "assert f(2)(3) == 5"),
    "coroutines": ("async def f(n):\n    return n + 1\n", "import asyncio\nassert asyncio.run(f(1)) == 2"),
    "context classes": (
        "def f(node):\n    node.next = Node(2)\n    return node.next\n",
        "n = Node(1)\ngot = f(n)\nassert type(got) is Node and got.value == 2 and n.next is got"),
    "module import": ("def f():\n    return 4\n", "from solution import f as g\nimport answer\nassert g() == answer.f() == 4"),
    "class attributes": (
        "class f:\n    limit = 1\n    _label = 'x'\n    def get(self):\n        return self.limit, self._label\n",
        "f.limit = 5\nassert f().get() == (5, 'x') and f()._label == 'x' and f.limit == 5"),
    "keyword arguments": ("def f(a, *, b=2):\n    return a - b\n", "assert f(1) == -1 and f(a=5, b=1) == 4"),
}  # fmt: skip
NODE = "class Node:\n    def __init__(self, value):\n        self.value, self.next = value, None\n"


@pytest.mark.parametrize("name", CROSSING)
def test_value_crosses_and_comes_back(tmp_path: Path, name: str) -> None:
    code, tests = CROSSING[name]
    seen = run_tests(tmp_path, prepared(code, tests, context=NODE))
    assert passed(seen) == list(seen), [one.records for one in seen.values()]


def test_instances_are_used_by_handle(tmp_path: Path) -> None:
    tests = (
        "import pytest\nassert len(Stack([1, 2])) == 2\nassert list(Stack('ab')) == ['a', 'b']\n"
        "assert Stack().push(3).pop() == 3 and isinstance(Stack(), Stack) and Stack.kind == 'stack'\n"
        "s = Stack([5])\nassert s.items == [5] and 5 in s\nwith s as inner:\n    inner.push(1)\nassert len(s) == 0\n"
        "with pytest.raises(Empty, match='nothing'):\n    Stack().pop()\nassert bool(Stack([1])) and not Stack()"
    )
    tests = tests.replace("import pytest\n", "").replace(
        "with pytest.raises(Empty, match='nothing'):\n    Stack().pop()\n",
        "try:\n    Stack().pop()\nexcept Empty as problem:\n    caught = str(problem), isinstance(problem, LookupError)\n"
        "assert caught == ('nothing left', True)\n",
    )
    seen = run_tests(tmp_path, prepared(STACK, tests, "Stack"))
    assert passed(seen) == list(seen), [one.records for one in seen.values()]


REFUSED = {
    "comparison": "assert Stack() == Stack()",
    "order": "assert Stack() < 3",
    "arithmetic": "assert abs(Stack() - 3) < 1",
    "assertion in a list": "assert [Stack()] == [3]",
    "swallowed": "try:\n    Stack() == 3\nexcept Exception:\n    pass\nassert True",
    "untransferable argument": "import threading\nassert Stack(threading.Lock())",
    "copied": "import copy\nassert copy.copy(Stack())",
    "inherited": "class Mine(Stack):\n    pass\nassert Mine().push(1)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_fault_fails_the_test_and_names_the_reason(tmp_path: Path, name: str) -> None:
    (seen,) = run_tests(tmp_path, prepared(STACK, REFUSED[name], "Stack")).values()
    assert seen.record["status"] == "failed"
    assert seen.record["fault"]


def test_trusted_objects_compare_themselves(tmp_path: Path) -> None:
    seen = run_tests(tmp_path, prepared(STACK, "assert Stack() == 3", "Stack", trust_objects=True))
    assert len(passed(seen)) == 1


ENDS = {
    "exit": "import os\ndef f(x):\n    os._exit(0)\n",
    "signal": "import os\ndef f(x):\n    os.kill(os.getpid(), 9)\n",
    "hang": "def f(x):\n    while True: pass\n",
    "closed pipes": "import os, time\ndef f(x):\n    os.closerange(0, 20)\n    time.sleep(60)\n",
}


@pytest.mark.parametrize("name", ENDS)
def test_solution_that_ends_fails_that_test_alone(tmp_path: Path, name: str) -> None:
    code = ENDS[name].replace("def f(x):\n", "def f(x):\n    if x: return x\n")
    tests = ["assert f(1) == 1", "try:\n    f(0)\nexcept BaseException:\n    pass", "assert f(2) == 2"]
    seen = run_tests(tmp_path, prepared(code, tests), deadline_s=2.0)
    assert passed(seen) == ["assert_1", "assert_3"]
    assert seen["assert_2"].record["fault"]


@pytest.mark.parametrize(
    "raised", ["StopIteration", "GeneratorExit", "KeyboardInterrupt", "StopAsyncIteration"]
)
def test_exception_that_ends_loops_in_silence_arrives_as_runtime_error(tmp_path: Path, raised: str) -> None:
    code = f"def f(x):\n    raise {raised}\n"
    tests = "for got in map(f, [1]):\n    assert False\n"
    (seen,) = run_tests(tmp_path, prepared(code, tests)).values()
    assert seen.record["test"]["error_type"] == "RuntimeError"  # type: ignore[index]


@pytest.mark.parametrize("base", ["StopIteration", "GeneratorExit", "KeyboardInterrupt"])
def test_own_exception_ends_no_loop_of_the_tests(tmp_path: Path, base: str) -> None:
    code = f"class Done({base}): pass\ndef f(x):\n    raise Done\n"
    tests = "for got in map(f, [1]):\n    assert False\n"
    (seen,) = run_tests(tmp_path, prepared(code, tests)).values()
    assert seen.record["test"]["error_type"] == "RuntimeError"  # type: ignore[index]


TREE = "class Tree:\n    key = None\n    def is_sorted(self, by=None):\n        return False\n"


@pytest.mark.parametrize(
    ("name", "function"),
    [("is_sorted", "lambda by: True"), ("is_sorted", "callable"), ("__eq__", "callable")],
)
def test_field_of_a_copy_hides_no_method_of_its_class(tmp_path: Path, name: str, function: str) -> None:
    code = f"def f():\n    tree = Tree()\n    tree.__dict__['{name}'] = {function}\n    return tree\n"
    payload = prepared(code, f"assert f().{name}(len)", context=TREE)
    (seen,) = run_tests(tmp_path, payload).values()
    assert f"in the place of Tree.{name}" in str(seen.record["fault"])


def test_field_of_a_copy_may_hold_a_function_where_its_class_has_none(tmp_path: Path) -> None:
    code = "def f():\n    tree = Tree()\n    tree.key, tree.other = (lambda x: -x), len\n    return tree\n"
    tests = "tree = f()\nassert tree.key(1) == -1 and tree.other([1]) == 1 and not tree.is_sorted()"
    seen = run_tests(tmp_path, prepared(code, tests, context=TREE))
    assert len(passed(seen)) == 1, seen


def test_each_test_gets_a_fresh_solution(tmp_path: Path) -> None:
    code = "calls = []\ndef f():\n    calls.append(1)\n    return len(calls)\n"
    seen = run_tests(tmp_path, prepared(code, ["assert f() == 1", "assert f() == 1 and f() == 2"]))
    assert len(passed(seen)) == 2


def test_output_of_the_solution_is_kept_and_that_of_tests_is_not_among_it(tmp_path: Path) -> None:
    payload = prepared("def f():\n    print('ours')\n", "print('theirs')\nassert f() is None")
    (seen,) = run_tests(tmp_path, payload).values()
    assert (seen.output("stdout"), seen.record["printed"]) == (b"ours\n", "theirs\n")


def test_events_are_those_of_the_solution_alone(tmp_path: Path) -> None:
    payload = prepared("import wave\ndef f(): ...\n", "import sndhdr\nassert f() is None")
    (seen,) = run_tests(tmp_path, payload).values()
    assert [detail for kind, detail, *_ in seen.events if kind == "import"] == ["wave"]


def test_solution_that_comes_after_its_tests_is_a_fault(tmp_path: Path) -> None:
    with guest_runner(tmp_path) as runner:
        runner.begin(mode="observe", max_processes=8)
        runner.send("common", b"{}")
        runner.send("solution", b"{}")
        header, _ = runner.receive()
        assert (header["type"], "not expected" in str(header["message"])) == ("fault", True)


FORMS = {
    "check": "def check(candidate):\n    assert candidate(2) == 4\n",
    "assertions": "assert f(2) == 4\nassert f(3) == 6\n",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.n = 2\n"
    "    def test_it(self):\n        self.assertEqual(f(self.n), 4)\n        with self.subTest(n=3):\n"
    "            self.assertEqual(f(3), 6)\n",
    "functions": "def test_it():\n    assert f(2) == 4\nclass TestMore:\n    def test_more(self):\n        assert f(0) == 0\n",
    "whole": "for n in range(3):\n    assert f(n) == 2 * n\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_form_passes_the_right_solution_and_fails_the_wrong_one(tmp_path: Path, form: str) -> None:
    right = run_tests(tmp_path, prepared("def f(x):\n    return 2 * x\n", FORMS[form]))
    wrong = run_tests(tmp_path, prepared("def f(x):\n    return x + 1\n", FORMS[form]))
    assert (passed(right), passed(wrong)) == (list(right), [])


def test_skipped_test_says_so_and_ends_well(tmp_path: Path) -> None:
    tests = "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('later')\n    def test_it(self): ...\n"
    (seen,) = run_tests(tmp_path, prepared("def f(): ...\n", tests)).values()
    assert (seen.record["status"], seen.record["message"]) == ("skipped", "later")
    assert seen.end["wait_status"] == 0


SKIPS = {
    "own exception": ("class SkipTest(Exception): pass\ndef f():\n    raise SkipTest\n", "assert f() == 1"),
    "of pytest": ("class Skipped(Exception): pass\ndef f():\n    raise Skipped\n", "assert f() == 1"),
    "chosen by its answer": (
        "def f():\n    raise NotImplementedError\n",
        "import unittest\ntry:\n    f()\nexcept NotImplementedError:\n    raise unittest.SkipTest\nassert True",
    ),
}


@pytest.mark.parametrize("name", SKIPS)
def test_solution_cannot_have_its_test_skipped(tmp_path: Path, name: str) -> None:
    (seen,) = run_tests(tmp_path, prepared(*SKIPS[name])).values()
    assert seen.record["status"] == "failed"


def test_parameter_set_that_skips_itself_leaves_the_others(tmp_path: Path) -> None:
    tests = (
        "import types, unittest\nsets = [1, 2, 3]\ndef test_it(n):\n    if n == 2:\n        raise unittest.SkipTest\n"
        "    assert f(n) == n\nmark = types.SimpleNamespace(name='parametrize', args=('n', sets))\ntest_it.pytestmark = mark\n"
    )
    right, wrong = ("def f(n):\n    assert n != 2\n    return n\n", "def f(n):\n    return 1\n")
    runs = [run_tests(tmp_path, prepared(code, tests)) for code in (right, wrong)]
    assert [len(passed(seen)) for seen in runs] == [1, 0]


def test_endless_test_ends_at_its_deadline_and_the_next_one_runs(tmp_path: Path) -> None:
    tests = ["while True: pass", "assert f() == 1"]
    seen = run_tests(tmp_path, prepared("def f():\n    return 1\n", tests), deadline_s=0.3)
    assert (seen["assert_1"].end["end"], passed(seen)) == ("deadline", ["assert_2"])
