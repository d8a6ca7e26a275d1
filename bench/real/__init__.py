"""Code of strangers, gathered beside the project: how much is let pass. Only figures and sources are kept."""
