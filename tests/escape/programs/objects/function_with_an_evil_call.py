# expect: exited_nonzero error=StopIteration
class Extract:
    def __call__(self, path):
        raise StopIteration


extract = Extract()
