"""Checks the SQL of pipelines, in SQLite's dialect, with static rules.

tokens (split as in SQLite) -> statements (classified by their first word) -> tree (sqlglot) -> rules.
SQLite makes the final decision at run time; these rules report faults earlier and explain more.
"""

from assayd_pipeline.sql.examine import SqlFindings, check_sql
from assayd_pipeline.sql.rules import READ_PRAGMAS, RULES, SESSION_PRAGMAS

__all__ = ["READ_PRAGMAS", "RULES", "SESSION_PRAGMAS", "SqlFindings", "check_sql"]
