"""The operator's settings. Only entry points read the settings; they pass values to the other parts."""

from assayd.settings.load import Row, effective, load, load_settings, variable
from assayd.settings.model import (
    OWN_POLICIES,
    Count,
    LogSettings,
    RepairProvider,
    RootSettings,
    Seconds,
    Settings,
    WebhookReceiver,
    WebhookSettings,
)
from assayd.settings.sample import documented, sample

__all__ = [
    "OWN_POLICIES",
    "Count",
    "LogSettings",
    "RepairProvider",
    "RootSettings",
    "Row",
    "Seconds",
    "Settings",
    "WebhookReceiver",
    "WebhookSettings",
    "documented",
    "effective",
    "load",
    "load_settings",
    "sample",
    "variable",
]
