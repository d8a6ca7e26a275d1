"""Implements `assay lsp`, which shows findings in an editor as diagnostics, with edits as quick fixes.

The module `diagnostics` creates the diagnostics from an attempt, and `server` decides when a file is
validated. The project's `.assay.toml` declares the kind of each file. All requests are sent to the daemon
through the client library, with the rights of the editor's user.
"""
