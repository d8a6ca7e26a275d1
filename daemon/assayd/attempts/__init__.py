"""The lifecycle of an attempt: admission, queueing, execution, verdict and retention."""
