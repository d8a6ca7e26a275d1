"""Code of strangers, gathered beside the project: how much of it is let pass. Only figures and sources are kept."""
