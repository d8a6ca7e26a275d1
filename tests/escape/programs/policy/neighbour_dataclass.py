# expect: completed refused_events= | run: policy=extractor builtins=safe
# The library compiles text for these, and looks at frames; that is not the guest's doing.
import collections
import dataclasses
import enum
import typing


@dataclasses.dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int = 0


class Colour(enum.Enum):
    RED = enum.auto()


class Named(typing.NamedTuple):
    a: int


Pair = collections.namedtuple("Pair", "one two")


def extract(path):
    values = [dataclasses.astuple(Point(1)), Colour.RED.value, Named(2).a, Pair(3, 4).two]
    return {"escaped": [] if values == [(1, 0), 1, 2, 4] else values}
