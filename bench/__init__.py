"""The benchmark: what an attempt costs, beside what the engine alone costs, in one run."""
