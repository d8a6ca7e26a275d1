"""The code inside the container: only the standard library, no other module of this project.

Every image has this folder as one compiled file; `frames` is also what `sandbox.channel` speaks.

Starting it costs each container processor time, so nothing here imports what brings much: no `typing`, `re`,
`dataclasses`, `json`, `collections`, `contextlib`, `signal` (enum), `ctypes`. Names only for annotations
stand below ``TYPE_CHECKING = False``, which type checkers take for true; `value`, `selector`, `suppress`,
`json_text` and `kernel` do the little that is used of the rest.
"""
