"""Implements `assay lsp`, which shows findings in an editor as diagnostics, with edits as quick fixes.

The module `command` starts the server, `server` decides when a file is validated, and `diagnostics` creates
the diagnostics from an attempt. The project's `.assay.toml` declares the kind of each file. All requests are
sent to the daemon through the client library, with the rights of the editor's user.
"""
