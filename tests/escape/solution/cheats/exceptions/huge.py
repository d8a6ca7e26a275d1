# Cheat: raises an exception with huge arguments and notes.
def total(values):
    problem = ValueError('x' * 50_000_000, list(range(1_000_000)))
    problem.add_note('y' * 10_000_000)
    raise problem
