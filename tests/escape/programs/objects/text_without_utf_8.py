# expect: completed notes~"lone surrogates"
def extract(path):
    return {"escaped": [], "text": "\ud800", "\udfff": ["\ud83d\ude00", "\0\x1b\u2028", "\ufffe"]}
