# expect: completed notes~"is not a JSON value"
# An object all of whose special methods do harm.
def harm(*arguments, **named):
    print("ESCAPED a special method ran", flush=True)
    raise SystemExit(0)


NAMES = (
    "repr str bytes format hash bool eq ne lt le gt ge len iter next contains getitem int index float complex "
    "getattribute getattr dir call reduce reduce_ex getstate copy deepcopy instancecheck subclasscheck sizeof "
    "fspath length_hint reversed missing enter exit await aiter anext set_name get delete class_getitem"
).split()


def extract(path):
    harmful = type("Harmful", (), {f"__{name}__": harm for name in NAMES})()
    return {"escaped": [], "value": harmful, "inside": [harmful, (harmful,), {"a": harmful}]}
