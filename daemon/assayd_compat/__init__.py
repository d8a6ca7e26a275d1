"""Other judges' HTTP interfaces on assayd: clients of SandboxFusion, Piston and Judge0 run unchanged.

A wing: it uses the client library and the public API alone, and nothing imports it but `assay compat`.
"""
