"""Provides the HTTP interfaces of SandboxFusion, Piston and Judge0, whose clients work unchanged.

This package uses only the client library and the public API; only `assay compat` loads it.
"""
