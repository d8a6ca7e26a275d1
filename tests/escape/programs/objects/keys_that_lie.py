# expect: completed notes~"two keys"
class Key(str):
    def __eq__(self, other):
        return self is other

    __hash__ = str.__hash__


def extract(path):
    clash = {1: "a", "1": "b", True.__index__() + 1: 0, (1, 2): "c", None: "d", "null": "e", b"x": 1, 1.5: 2}
    return {"escaped": [], "keys": clash, "twice": {Key("escaped"): ["one"], Key("escaped"): ["two"]}}
