# Cheat: makes its arguments contain themselves.
def total(values):
    values.append(values)
    return values
