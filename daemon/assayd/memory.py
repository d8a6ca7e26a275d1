"""Memory of this process: what was used for something large goes back to the system.

glibc gives every thread a heap of its own and keeps what was freed in it; after a few large submissions, read
in different threads, the daemon held several times what it used. Elsewhere than on glibc nothing is done.
"""

from __future__ import annotations

import ctypes
import gc

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_MAPPED_FROM_BYTES = 2**20
"""A larger block is a separate mapping, which freeing returns. Once set, it doesn't grow by itself."""
_ARENAS = 2
_LIBC = ctypes.CDLL(None)


def settle() -> None:
    """Have the allocator keep little; before threads are started."""
    if hasattr(_LIBC, "mallopt"):
        _LIBC.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        _LIBC.mallopt(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Collect what nothing refers to any more, and give what is free back to the system.

    What came with a task is often part of a cycle, which the collector would find much later.
    """
    gc.collect()
    if hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(0)
