"""The daemon's side of egress: reads guest requests to the proxy, decides on them, connects, and records.

Start with docs/egress.md.
"""

from assayd.egress.relay import Relay

__all__ = ["Relay"]
