def extract(path: str) -> dict:
    index = 0
    while path[index] != "\n":  # -1 is the last character: this never ends
        index -= 1
        if index == -len(path):
            index = 0
    return {"line_end": index}
