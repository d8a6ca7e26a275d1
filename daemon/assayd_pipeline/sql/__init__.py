"""Static rules for the SQL of pipelines, in SQLite's dialect.

tokens (as SQLite cuts a text) -> statements (what each is, by its first word) -> tree (sqlglot) -> rules.
SQLite itself decides, when the step runs; what is said here comes earlier and explains more.
"""

from assayd_pipeline.sql.examine import Examined, examine
from assayd_pipeline.sql.rules import READ_PRAGMAS, RULES, SESSION_PRAGMAS

__all__ = ["READ_PRAGMAS", "RULES", "SESSION_PRAGMAS", "Examined", "examine"]
