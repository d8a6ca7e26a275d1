# expect: policy_violation refused~compile | run: builtins=safe policy=extractor
from dataclasses import dataclass, fields


@dataclass
class Base:
    a: int = 0


def extract(path):
    fields(Base)[0].name = "x=(lambda: [c for c in ().__class__.__base__.__subclasses__()])()"

    @dataclass
    class Derived(Base):
        b: int = 0

    return {"escaped": ["compiled"]}
