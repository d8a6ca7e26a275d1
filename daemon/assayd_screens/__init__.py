"""Implements `assay review`, `assay top` and the screens of `assay generate`, which fill a terminal.

The module `commands` starts them. `wizard` runs the screens in sequence: `asking` for a request, and `result`
for its progress and its outcome. `session` sends their requests to the daemon through the client library.
"""
