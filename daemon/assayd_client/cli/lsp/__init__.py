"""`assay lsp`: findings in an editor, as diagnostics with the certain edits as quick fixes.

`diagnostics` makes them of an attempt, `server` says when a file is validated. What a file is, `.assay.toml`
of its project says. Everything is asked of the daemon by the client library, as the user who edits.
"""
