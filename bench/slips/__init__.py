"""How well reports help against the slips of a hand: figures of `make bench-slips`."""
