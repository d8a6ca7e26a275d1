"""Batches: accepts lines as they arrive, submits a few items at a time, and reports progress.

A line becomes an item, and an item becomes an attempt. Lines wait in the store rather than in the queue, so
that a batch can have ten thousand of them.
"""

from assayd.batches.batches import BatchLimits, DaemonBatches
from assayd.batches.receiving import LineCaps

__all__ = ["BatchLimits", "DaemonBatches", "LineCaps"]
