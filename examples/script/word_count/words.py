import re
from collections import Counter


def count(text: str) -> dict[str, int]:
    return dict(Counter(re.findall(r"[a-z]+", text.lower())).most_common())
