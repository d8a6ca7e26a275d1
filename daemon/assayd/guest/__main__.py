"""Start the guest runner: ``python3.11 -I -S -m assayd_guest``."""

import os
import sys

# Set by images whose libraries lie outside the interpreter's own folder, which -S leaves out.
sys.path += [folder for folder in os.environ.get("ASSAYD_PYTHON_PATH", "").split(":") if folder]

from .runner import main

if __name__ == "__main__":
    main()
