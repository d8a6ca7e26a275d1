"""How much slower than usual the machine is: what tests wait for may take that much longer."""

import os

SLOWER_BY = float(os.environ.get("TESTS_SLOWER_BY", "1"))
