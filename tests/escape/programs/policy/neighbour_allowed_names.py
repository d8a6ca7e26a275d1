# expect: completed refused_events= | run: policy=extractor builtins=safe
import base64
import fnmatch
import hashlib
import json
import math
import os.path
import string
import uuid
from os import path as join
from pathlib import PurePosixPath
from urllib.parse import urlsplit


def extract(path):
    text = json.dumps([math.pi, string.digits, urlsplit("http://a/b").path, str(PurePosixPath("a") / "b")])
    digest = hashlib.sha256(base64.b64encode(text.encode())).hexdigest()
    found = fnmatch.fnmatch(os.path.basename(join.join("a", "b.txt")), "*.txt")
    return {"escaped": [] if found and uuid.uuid4().version == 4 and len(digest) == 64 else [digest]}
