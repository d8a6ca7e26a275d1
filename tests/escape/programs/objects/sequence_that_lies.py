# expect: completed notes~Endless
class Endless(list):
    def __len__(self):
        print("ESCAPED len was called")
        return 2**62

    def __iter__(self):
        print("ESCAPED iter was called")
        while True:
            yield 1


class EndlessTuple(tuple):
    __len__, __iter__ = Endless.__len__, Endless.__iter__


def extract(path):
    return {"escaped": [], "list": Endless([1]), "tuple": EndlessTuple((1,))}
