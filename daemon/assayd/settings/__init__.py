"""The operator's settings. Only entry points read the settings. They pass values to the other parts."""

from assayd.settings.load import (
    SettingRow,
    get_environment_variable_name,
    list_effective_settings,
    load_program_settings,
    load_settings,
)
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
from assayd.settings.sample import iter_documented_settings, render_sample_settings

__all__ = [
    "OWN_POLICIES",
    "Count",
    "LogSettings",
    "RepairProvider",
    "RootSettings",
    "SettingRow",
    "Seconds",
    "Settings",
    "WebhookReceiver",
    "WebhookSettings",
    "iter_documented_settings",
    "list_effective_settings",
    "load_program_settings",
    "load_settings",
    "render_sample_settings",
    "get_environment_variable_name",
]
