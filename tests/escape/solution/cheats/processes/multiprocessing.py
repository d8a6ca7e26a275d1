# Cheat: starts workers.
def total(values):
    import multiprocessing
    with multiprocessing.Pool(2) as pool:
        return pool.map(abs, [-1])
