"""Findings from runs, the retry context, and places in texts that findings name."""
