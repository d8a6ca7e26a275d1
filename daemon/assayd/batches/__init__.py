"""Batches: accepts lines as they arrive, submits a few at a time, and reports progress.

A line becomes an item, and an item becomes an attempt. Lines wait in the store, not in the queue, even if
there are ten thousand.
"""

from assayd.batches.batches import BatchLimits, DaemonBatches
from assayd.batches.receiving import LineCaps

__all__ = ["BatchLimits", "DaemonBatches", "LineCaps"]
