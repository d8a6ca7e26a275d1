# expect: completed refused_events= | run: policy=extractor builtins=safe
# Classes, closures, generators, exceptions, comprehensions, matching: the language itself.
import re


class Base:
    def __init__(self, value):
        self.value = value

    @property
    def double(self):
        return self.value * 2


class Derived(Base):
    def __init__(self):
        super().__init__(21)

    def __iter__(self):
        yield from range(3)


def extract(path):
    try:
        raise KeyError("a")
    except KeyError as problem:
        caught = repr(problem)
    match [re.sub("a", "b", "aa"), Derived().double, *Derived()]:
        case ["bb", 42, 0, 1, 2] if caught == "KeyError('a')":
            return {"escaped": []}
    return {"escaped": ["wrong"]}
