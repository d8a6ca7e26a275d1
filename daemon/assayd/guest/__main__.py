"""Start the guest runner: ``python3.11 -I -S -m assayd_guest``.

A template imports this under another name, calls `warm` once, and `main` in each child.
"""

import os
import sys

# Set by images whose libraries lie outside the interpreter's own folder, which -S leaves out.
sys.path += [folder for folder in os.environ.get("ASSAYD_PYTHON_PATH", "").split(":") if folder]

from .programs import find_programs
from .runner import main


def warm() -> None:
    """Import what the runner imports before it is ready."""
    find_programs()


if __name__ == "__main__":
    main()
