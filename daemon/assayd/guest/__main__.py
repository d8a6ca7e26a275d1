"""Starts the guest runner; an image contains this whole package as one file (`imaging/guest_file.py`)."""

import gc
import os
import sys

gc.disable()  # objects that exist before the first fork stay
# Set by images whose libraries are outside the interpreter's folder, which -S omits.
sys.path += [folder for folder in os.environ.get("ASSAYD_PYTHON_PATH", "").split(":") if folder]

from .startup import defer_fork_handlers  # noqa: E402 - the path and the collector come first

defer_fork_handlers()

from .runner import main, prepare  # noqa: E402 - handlers that modules register for forks come after

__all__ = ["main", "prepare"]

if __name__ == "__main__":
    main()
