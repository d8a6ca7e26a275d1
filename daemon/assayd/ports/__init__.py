"""What the daemon needs of the world, as small protocols; each has more than one implementation."""
