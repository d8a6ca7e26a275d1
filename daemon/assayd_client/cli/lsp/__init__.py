"""Implements `assay lsp`: shows findings in an editor as diagnostics, with certain edits as quick fixes.

`diagnostics` creates them from an attempt, and `server` decides when a file is validated. The project's
`.assay.toml` declares the kind of each file. All requests are sent to the daemon through the client
library, with the rights of the user who edits.
"""
