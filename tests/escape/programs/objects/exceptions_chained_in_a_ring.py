# expect: exited_nonzero record=RaisedException
def extract(path):
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one
    raise one from two
