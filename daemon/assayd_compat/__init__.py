"""HTTP interfaces of other judges: clients of SandboxFusion, Piston and Judge0 work unchanged.

This package uses only the client library and the public API; only `assay compat` imports it.
"""
