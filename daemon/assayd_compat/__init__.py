"""HTTP interfaces of other judges: clients of SandboxFusion, Piston and Judge0 run unchanged.

This wing uses only the client library and the public API; only `assay compat` imports it.
"""
