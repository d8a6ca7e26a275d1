# expect: exited_nonzero record=RaisedException message~"not available"
class Meta(type):
    def __getattribute__(cls, name):
        print("ESCAPED the exception's class was asked for", name)


class Liar(BaseException, metaclass=Meta):
    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


def extract(path):
    raise Liar
