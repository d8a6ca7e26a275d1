"""From words to a validated submission: one chain of answers, attempts and repairs, with one budget."""
