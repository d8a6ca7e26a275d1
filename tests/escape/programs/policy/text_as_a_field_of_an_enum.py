# expect: policy_violation refused~compile | run: builtins=safe policy=extractor
import dataclasses
import enum

CODE = "x=(lambda: [c for c in ().__class__.__base__.__subclasses__()])()"


def extract(path):
    made = enum.Enum("E", {"__anno" + "tations__": {CODE: int}})
    dataclasses.dataclass(made)
    return {"escaped": ["compiled"]}
