# expect: completed stdout=ü
# -*- coding: no-such-encoding -*-
def extract(path):
    print("ü", end="")
    return {"escaped": []}
