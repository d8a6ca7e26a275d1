# expect: exited_nonzero verdict=failed rules~tests.failed | run: program=module as=adapter
# What runs is the text that was read before the first line of the module ran; nothing configures it later.
for name, text in (
    ("test_adapter.py", "def test_transform(): pass\n"),
    ("conftest.py", "def pytest_runtest_makereport(item, call): call.excinfo = None\n"),
    ("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
):
    with open(name, "w") as file:
        file.write(text)
