# expect: completed | run: builtins=safe policy=extractor
from dataclasses import InitVar, asdict, dataclass, field
from enum import Enum
from typing import ClassVar, Generic, NamedTuple, TypedDict, TypeVar

T = TypeVar("T")
Color = Enum("Color", "RED GREEN")
Point = NamedTuple("Point", [("x", int), ("y", int)])
Row = TypedDict("Row", {"name": str, "not-a-name": int})


@dataclass(frozen=True, order=True, slots=True, kw_only=True)
class Name(Generic[T]):
    first: str
    parts: list[str] = field(default_factory=list)
    größe: int = 1
    scale: InitVar[int] = 2
    count: ClassVar[int] = 0

    def __post_init__(self, scale):
        pass


@dataclass(unsafe_hash=True)
class Other:
    self: int = 3


@dataclass
class Child(Other):
    more: int = 4


def extract(path):
    name = Name(first=path)
    assert name < Name(first=path, größe=2) and asdict(name)["first"] == path
    assert Child(self=1).more == 4
    assert Point(1, 2).x == 1 and Color.RED is not Color.GREEN and Row(name=path)
    return {"escaped": []}
