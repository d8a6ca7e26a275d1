"""The daemon's side of egress: what guest code asks the proxy for is read, judged, connected, recorded.

docs/egress.md is the page to read first.
"""

from assayd.egress.relay import Relay

__all__ = ["Relay"]
