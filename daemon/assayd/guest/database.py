"""The database of an attempt: bytes in the runner's memory; a file only while a `sql` unit runs.

Therefore, no other unit can access the database, and a unit that fails leaves it unchanged.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .workdir import WorkDirectory

FOLDER = ".database"
FILE = f"{FOLDER}/pipeline.sqlite"
"""Path of the file, relative to the work directory. SQLite puts its journals in the same folder."""

RESULT = "database.sqlite"
"""What the database is called among the declared outputs."""


class AttemptDatabase:
    """The bytes of a database, which are changed only by units that end successfully."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._given = bytearray()
        self._content: bytes | None = None

    def add(self, body: bytes) -> None:
        """Add a part of the database with which the attempt starts."""
        self._given += body

    @property
    def changed_content(self) -> bytes | None:
        """Return the database if it differs from the initial database; otherwise None."""
        return None if self._content is None or self._content == self._given else self._content

    def create_file(self, work: WorkDirectory) -> None:
        """Create the database file; on failure, leave nothing of it. Raises: OSError."""
        work.remove(FOLDER)
        try:
            work.write_file(FILE, self._given if self._content is None else self._content)
        except OSError:
            work.remove(FOLDER)
            raise

    def remove_file(self, work: WorkDirectory, *, keep: bool) -> str | None:
        """Remove the file; if requested, keep its content. Return the problem with the file, if any."""
        try:
            content = work.read(FILE, self.most_bytes) if keep else None
        except OSError as problem:
            return f"the database can't be read: {problem.strerror}"
        finally:
            work.remove(FOLDER)
        if keep and content is None:
            return "the database is too large, or no longer a file"
        self._content = content or self._content
        return None
