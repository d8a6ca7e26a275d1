"""Static checks of Python: syntax, names, imports, security, and safe fixes."""
