from support.texts.commits import real, result

__all__ = ["real", "result"]
