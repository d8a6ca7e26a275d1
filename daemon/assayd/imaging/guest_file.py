"""Compiles the guest code into one file, with which ``python3.11 FILE`` starts the runner.

The interpreter of the image runs this module; therefore, this module imports only the standard library. The
single file replaces about forty files that the import system would have to find. Its modules can be
imported only until the runner removes their finder, before it forks the first child. Running the file under
a name other than ``__main__`` defines `main` and `prepare`, which preloads what attempts need.

Arguments: the folder with the sources, the name of the package, the path of the sources in tracebacks, and
the file to write.
"""

import __future__

import ast
import importlib.util
import marshal
import sys
from pathlib import Path
from types import CodeType

_START = """
import sys
from _frozen_importlib import ModuleSpec
from marshal import loads

CODES = {codes!r}


class Finder:
    holds_guest_code = True

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in CODES:
            return None
        spec = ModuleSpec(name, Finder, origin=CODES[name][1], is_package=CODES[name][0])
        spec.has_location = True
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        exec(loads(CODES[module.__name__][2]), module.__dict__)


sys.meta_path.insert(0, Finder)
from {package}.__main__ import main, prepare

if __name__ == "__main__":
    main()
"""


def build_guest_file(sources: Path, package: str, shown: str) -> bytes:
    """Return the content of the guest file: the start code, and all modules below `sources`, compiled.

    Raises: SystemExit, if `sources` has no ``__main__.py``.
    """
    codes: dict[str, tuple[bool, str, bytes]] = {}
    for path in sorted(sources.rglob("*.py")):
        place = path.relative_to(sources).as_posix()
        name = ".".join([package, *place.removesuffix(".py").split("/")])
        is_package = name.endswith(".__init__")
        code = marshal.dumps(_compile_module(path.read_bytes(), f"{shown}/{place}"))
        codes[name.removesuffix(".__init__")] = (is_package, f"{shown}/{place}", code)
    if f"{package}.__main__" not in codes:
        raise SystemExit(f"{sources} has no __main__.py")
    start = compile(_START.format(codes=codes, package=package), f"{shown}/start.py", "exec", optimize=2)
    # The header of a compiled file: its version, and the flag that its source is never compared (PEP 552).
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(start)


def _compile_module(source: bytes, shown: str) -> CodeType:
    """Compile a module without its ``__future__`` import, but with unevaluated annotations."""
    tree = ast.parse(source, shown)
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    ]
    flags = __future__.annotations.compiler_flag
    code: CodeType = compile(tree, shown, "exec", flags=flags, dont_inherit=True, optimize=2)
    return code


if __name__ == "__main__":
    Path(sys.argv[4]).write_bytes(build_guest_file(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
