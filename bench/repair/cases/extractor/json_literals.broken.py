def extract(path: str) -> dict:
    parts = path.strip("/").split("/")
    filename = parts[-1]
    return {
        "client": parts[1],
        "is_report": true if "report" in filename else false,
        "year": int(parts[2]),
        "region": null,
    }
