"""Returns freed memory of this process to the system after large operations.

glibc uses a separate heap for each thread and keeps freed memory in the heap. After a few large submissions
that different threads parsed, the daemon would otherwise occupy several times the memory in use. Without
glibc, this module does nothing.
"""

from __future__ import annotations

import ctypes
import gc

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_MAPPED_FROM_BYTES = 2**20
"""A larger block is a separate mapping, which freeing returns. Once set, it doesn't grow by itself."""
_ARENAS = 2
_LIBC = ctypes.CDLL(None)


def configure_allocator() -> None:
    """Configure the allocator to keep little freed memory. Must be called before threads are started."""
    if hasattr(_LIBC, "mallopt"):
        _LIBC.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        _LIBC.mallopt(_ARENA_MAX, _ARENAS)


def release_free_memory() -> None:
    """Collect unreferenced objects, and return free memory to the system.

    A task's objects are often part of a reference cycle, which the collector would otherwise detect much
    later.
    """
    gc.collect()
    if hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(0)
