# Cheat: raises exceptions that are each other's cause.
def total(values):
    one, two = ValueError('one'), KeyError('two')
    one.__cause__, two.__cause__ = two, one
    one.__context__ = one
    raise one
