# expect: completed verdict=failed rules~tests.unexpected | run: program=module
def test_first():
    pass


for number in range(5):
    globals()[f"test_{number}"] = lambda: None
