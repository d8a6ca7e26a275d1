# expect: completed stdout_bytes=0 | run: made=yes
# Characters at which `str.splitlines` splits and the compiler does not.
SOURCE = "def extract(path):\n" + "".join(
    f"    # a comment{separator}    print('ESCAPED a comment ran')\n"
    for separator in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
) + "    return {'escaped': []}\n"
