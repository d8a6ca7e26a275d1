"""Batches: lines taken in as they come, fed to the scheduler a few at a time, and followed.

A line becomes an item, an item an attempt. Ten thousand lines wait in the store and not in the queue.
"""

from assayd.batches.batches import BatchLimits, DaemonBatches
from assayd.batches.receiving import LineCaps

__all__ = ["BatchLimits", "DaemonBatches", "LineCaps"]
