"""The code inside the container; it imports only the standard library and no other part of this project.

Every image contains this folder as one compiled file. `sandbox.channel` also uses the module `frames`.

Since starting this code costs CPU time in every container, no module imports packages that load many
others: `typing`, `re`, `dataclasses`, `json`, `collections`, `contextlib`, `signal` (which imports `enum`),
`ctypes`. Names that only annotations use are imported under ``TYPE_CHECKING = False``, which type checkers
treat as true; `substitutes` and `kernel` implement the few functions that are needed from these packages.
"""
