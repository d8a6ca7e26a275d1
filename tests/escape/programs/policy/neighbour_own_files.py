# expect: completed refused_events= | run: policy=default
# Files of its own, and those that were given, by relative and absolute path.
import json
import pathlib


def extract(path):
    pathlib.Path("made").mkdir()
    with open("made/out.json", "w") as file:
        json.dump({"a": 1}, file)
    given = pathlib.Path("given/data.txt").read_text()
    made = json.loads(open("/sandbox/made/../made/out.json").read())
    with open("/dev/null", "w") as null:
        null.write("nothing")
    return {"escaped": [] if (given, made) == ("given", {"a": 1}) else [given, made]}
