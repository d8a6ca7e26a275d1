"""Batches: lines taken in as they come, fed to the scheduler a few at a time, and told about.

A line becomes an item, an item an attempt. Ten thousand lines wait in the store and not in the queue.
"""

from assayd.batches.batches import BatchLimits, DaemonBatches
from assayd.batches.feeding import Belt
from assayd.batches.receiving import LineCaps, Sources

__all__ = ["BatchLimits", "Belt", "DaemonBatches", "LineCaps", "Sources"]
