"""One TOML file, read with types; every complaint names the file and the key."""

import tomllib
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Table:
    """The top table of a recipe file. A key that is absent reads as empty, false or None."""

    path: Path
    source: bytes
    values: dict[str, object]

    @classmethod
    def read(cls, path: Path, keys: Set[str]) -> "Table":
        """Read `path`, which may hold `keys` and no others.

        Raises:
            ConfigError: ``image.recipe_invalid``, when it cannot be read, is not TOML, or holds another key.
        """
        try:
            source = path.read_bytes()
            values = tomllib.loads(source.decode())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError("image.recipe_invalid", f"{path}: {error}") from error
        table = cls(path, source, values)
        for key in values:
            if key not in keys:
                raise table.error(key, "is not a key of a recipe")
        return table

    def error(self, key: str, problem: str) -> ConfigError:
        """Make the error that says what is wrong with `key`."""
        return ConfigError("image.recipe_invalid", f"{self.path}: {key}: {problem}", field=key)

    def text(self, key: str) -> str | None:
        """Return a string, or None."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(key, "must be a string")

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.values.get(key, False)
        if isinstance(value, bool):
            return value
        raise self.error(key, "must be true or false")

    def count(self, key: str) -> int | None:
        """Return a whole number above 0, or None."""
        value = self.values.get(key)
        if value is None or (type(value) is int and value > 0):
            return value
        raise self.error(key, "must be a whole number above 0")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise self.error(key, "must be a list of strings")

    def pairs(self, key: str) -> dict[str, str]:
        """Return a table of strings, empty where it is missing. Raises: ConfigError."""
        value = self.values.get(key, {})
        if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
            return value
        raise self.error(key, "must be a table of strings")
