# expect: completed
# Format strings walk attributes; what they reach is this process, which holds nothing worth having.
class Thing:
    def __init__(self):
        self.part = 1


def extract(path):
    texts = [
        "{0.__class__.__init__.__globals__}".format(Thing()),
        "{0.__globals__[__builtins__]}".format(extract),
        "{0.__class__.__mro__[1].__subclasses__}".format(Thing()),
        "%(a)s" % {"a": Thing.__init__},
    ]
    return {"escaped": [text for text in texts if "unit-1" in text or "Transcript" in text]}
