def extract(path: str) -> dict:
    segments = path.strip("/").split("/")
    info = {"client": segments[1], "year": segments[2], "quarter": segments[3]}
    info["period"] = f"{info['year']}-{info['quarter']}"
    info["year"] = int(info["year"])
    return info
