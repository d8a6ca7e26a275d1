# expect: completed
# The same texts, compiled by guest code itself: the process may suffer, and nobody else.
import ast


def extract(path):
    for text in ("(" * 5000, "-" * 50_000 + "1", "a" + ".b" * 50_000, "[" * 150 + "]" * 150, "a" + "+b" * 50_000):
        for act in (compile, lambda *a: ast.parse(a[0])):
            try:
                act(text, "x", "exec")
            except (SyntaxError, RecursionError, MemoryError):
                pass
    return {"escaped": []}
