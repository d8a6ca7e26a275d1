# expect: completed notes~"is not a JSON value"
class Meta(type):
    def __getattribute__(cls, name):
        print("ESCAPED the metaclass was asked for", name)
        return "dict"

    def __instancecheck__(cls, instance):
        print("ESCAPED the metaclass was asked")
        return True

    __subclasscheck__ = __eq__ = __instancecheck__
    __hash__ = type.__hash__


class Claims(metaclass=Meta):
    @property
    def __class__(self):
        print("ESCAPED the class was asked")
        return dict


def extract(path):
    return {"escaped": [], "value": Claims(), "type": Claims}
