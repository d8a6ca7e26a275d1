# expect: completed notes
class Text(str):
    def __str__(self):
        print("ESCAPED a method of a string ran")
        return "x" * 10**9

    encode = isascii = __len__ = __getitem__ = __iter__ = __repr__ = __add__ = __hash__ = __eq__ = __str__


class Number(int):
    def __index__(self):
        print("ESCAPED a method of a number ran")
        return 10**5000

    bit_length = __int__ = __add__ = __radd__ = __repr__ = __str__ = __format__ = __index__


class Real(float):
    def __float__(self):
        print("ESCAPED a method of a float ran")
        return float("nan")

    __repr__ = __str__ = __eq__ = __lt__ = is_integer = __float__


def extract(path):
    return {"escaped": [], "values": [Text("a"), Number(1), Real(1.5)]}
