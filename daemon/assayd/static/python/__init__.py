"""Static checks of Python: syntax, names, imports, security, and fixes that are safe."""
