"""How much slower than usual the machine is; tests wait that much longer."""

import os

SLOWER_BY = float(os.environ.get("TESTS_SLOWER_BY", "1"))
