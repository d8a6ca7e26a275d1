def extract(path: str) -> dict:
    _, _, client, year, quarter, filename = path.split("/")
    return {
        "client": client,
        "fiscal_year": int(year),
        "quarter": int(quarter.lstrip("Q")),
        "filename": filename,
    }
