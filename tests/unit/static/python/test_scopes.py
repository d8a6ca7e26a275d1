from __future__ import annotations

import ast

import pytest

from assayd.static.python.scopes import ImportOrigin, build_scoped_tree, list_nodes, resolve_name


def last_use(code: str, name: str) -> tuple[set[str], bool]:
    """Return the modules or names that a name's last use may refer to, and whether it may be a builtin."""
    uses = [
        site
        for site in build_scoped_tree(ast.parse(code)).sites
        if isinstance(site.node, ast.Name) and site.node.id == name and isinstance(site.node.ctx, ast.Load)
    ]
    found = resolve_name(name, max(uses, key=lambda s: (s.node.lineno, s.node.col_offset)).scope)  # type: ignore[attr-defined]
    return {
        o.module if o.name is None else f"{o.module}:{o.name}" for o in found.origins
    }, found.may_be_builtin


@pytest.mark.parametrize(
    ("code", "origins", "builtin"),
    [
        ("m", set(), True),
        ("m = 1\nm", set(), True),
        ("import m\nm", {"m"}, True),
        ("import m.n\nm", {"m"}, True),
        ("import a.b as m\nm", {"a.b"}, True),
        ("from a import b as m\nm", {"a:b"}, True),
        ("from a import m\nimport b as m\nm", {"a:m", "b"}, True),
        ("from . import m\nm", set(), True),
        ("import m\ndef f(): return m", {"m"}, True),
        ("import m\ndef f(m): return m", set(), False),
        ("import m\ndef f(*m): return m", set(), False),
        ("import m\ndef f(x=m): pass", {"m"}, True),
        ("import m\ndef f(m=m): pass", {"m"}, True),
        ("import m\ndef f(x: m): pass", {"m"}, True),
        ("import m\n@m\ndef f(m): pass", {"m"}, True),
        ("import m\nlambda m: m", set(), False),
        ("import m\n[m for m in 'a']", set(), False),
        ("import m\n[1 for m in\n m]", {"m"}, True),
        ("import m\n[1 for x in 'a' for m in\n m]", set(), False),
        ("import m\n{m: 1 for x in 'a'}", {"m"}, True),
        ("[(m := 1) for x in 'a']\nm", set(), True),
        ("def f():\n    [(m := 1) for x in 'a']\n    return m", set(), False),
        ("import m\ndef f():\n    m = 1\n    return m", set(), False),
        ("import m\ndef f():\n    del m\n    return m", set(), False),
        ("def f():\n    import m\n    return m", {"m"}, False),
        ("def f():\n    import m\nm", set(), True),
        ("def f():\n    global m\n    import m\nm", {"m"}, True),
        ("def f():\n    import m\n    def g(): return m", {"m"}, False),
        ("def f():\n  m = 1\n  def g():\n    nonlocal m\n    import m\n  return m", {"m"}, False),
        ("def f():\n  m\n  def g():\n    m = 1\n    def h():\n      nonlocal m\n      m = 2", set(), True),
        ("import m\nclass A:\n    m = 1\n    x = m", {"m"}, True),
        ("class A:\n    import m\n    def f(self): return m", set(), True),
        ("class A:\n    import m\n    x = m", {"m"}, True),
        ("def f(m):\n    class A:\n        x = m", set(), False),
        ("try: pass\nexcept E as m: m", set(), True),
        ("def f(x):\n    match x:\n        case [m]: return m", set(), False),
        ("def f(x):\n    match x:\n        case {**m}: return m", set(), False),
        ("def f(x):\n    with x as m: return m", set(), False),
        ("def f(x):\n    for m in x: return m", set(), False),
        ("def f(x):\n    def m(): pass\n    return m", set(), False),
        ("def f(x):\n    class m: pass\n    return m", set(), False),
    ],
)  # fmt: skip
def test_a_name_resolves_as_python_would(code: str, origins: set[str], builtin: bool) -> None:
    assert last_use(code, "m") == (origins, builtin)


def test_private_names_of_a_class_are_mangled() -> None:
    code = "class C:\n    def f(self):\n        global __m\n        import m as __m\n_C__m"
    assert last_use(code, "_C__m") == ({"m"}, True)


def test_nodes_come_with_their_parents() -> None:
    tree = ast.parse("x.y")
    walked = build_scoped_tree(tree)
    attribute = tree.body[0].value  # type: ignore[attr-defined]
    assert walked.parent(attribute.value) is attribute
    assert walked.parent(tree) is None


def test_an_origin_is_a_value() -> None:
    assert ImportOrigin(module="a", name="b") == ImportOrigin(module="a", name="b")


TEXT = "def f(a):\n    return [a, 1]\n"


def test_nodes_are_those_of_a_walk_and_kept() -> None:
    tree = ast.parse(TEXT)
    first = list_nodes(tree)

    assert list(first) == list(ast.walk(tree))[1:]
    assert list_nodes(tree) is first


def test_kept_nodes_leave_out_the_tree_that_keeps_them() -> None:
    tree = ast.parse(TEXT)

    assert tree not in list_nodes(tree)
