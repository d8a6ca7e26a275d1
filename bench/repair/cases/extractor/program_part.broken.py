import os.path
import re
import sys


def extract(path: str) -> dict:
    folder, filename = os.path.split(path)
    stem, extension = os.path.splitext(filename)
    match = re.search(r"_v(\d+)$", stem)
    return {
        "client": folder.split("/")[2],
        "format": extension.lstrip("."),
        "version": int(match.group(1)) if match else None,
    }


if __name__ == "__main__":
    print(extract(sys.argv[1]))
