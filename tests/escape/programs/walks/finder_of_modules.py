# expect: completed
# An own finder gives modules to whoever imports; libraries of this one process take them, nobody else.
import sys
import types


class Finder:
    def find_spec(self, name, path=None, target=None):
        return None


def extract(path):
    sys.meta_path.insert(0, Finder())
    sys.path.insert(0, "/sandbox")
    with open("/sandbox/fractions.py", "w") as file:
        file.write("import os\nFraction = os.getpid()\n")
    sys.modules.pop("fractions", None)
    import fractions

    return {"escaped": [] if fractions.Fraction > 1 else [fractions.Fraction]}
