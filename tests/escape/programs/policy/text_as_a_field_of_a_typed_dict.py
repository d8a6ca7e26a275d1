# expect: policy_violation refused~compile | run: builtins=safe policy=extractor
# A class made by a call may have any text as the name of a field, and dataclasses compile it.
import dataclasses
import typing

CODE = "x=(lambda: [c for c in ().__class__.__base__.__subclasses__()])()"


def extract(path):
    made = typing.TypedDict("T", {CODE: int})
    dataclasses.dataclass(made)
    return {"escaped": ["compiled"]}
