# expect: completed notes~Lying
class Lying(dict):
    def items(self):
        print("ESCAPED items was called")
        return [("status", "returned")]

    __iter__ = keys = values = __len__ = __getitem__ = __contains__ = items


def extract(path):
    return {"escaped": [], "value": Lying(a=1)}
