"""How a submission becomes an attempt, runs, and is put on record."""
