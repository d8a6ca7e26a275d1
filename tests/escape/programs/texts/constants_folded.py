# expect: out_of_memory
# The compiler folds small constants only; what is left to the run meets the run's limits.
def extract(path):
    return ("a" * 10**9, b"b" * (1 << 34), (0,) * (1 << 40), 1 << (1 << 36))
