"""What runs inside the container: standard library only, imports nothing else of ours.

The same folder is copied into every image; `frames` is also what `sandbox.channel` speaks.
"""
