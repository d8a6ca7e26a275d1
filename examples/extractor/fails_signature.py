async def extract(filename, *, base) -> list:
    return [filename.removeprefix(base)]
