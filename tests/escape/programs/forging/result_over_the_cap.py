# expect: output_limit killed_by="result cap" | run: result_kb=512
def extract(path):
    return {"escaped": [], "padding": ["p" * 100_000] * 20}
