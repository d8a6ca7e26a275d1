"""Stores the bundles of a cluster in a directory that all gateways share, or in object storage."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from assayd.errors import ConfigError
from assayd_cluster.bundles.packed import PackedArtifactStore
from assayd_cluster.bundles.verified import SharedBundles, VerifiedArtifactStore
from assayd_cluster.settings import BundleSettings, read_secret

__all__ = ["open_bundles"]

REQUEST_TIMEOUT_S = 30.0
MAX_RETRY_S = 20.0
"""Seconds for which a request is retried while object storage fails or doesn't respond."""
PAUSE_S = 2.0
"""Maximum number of seconds between two retries."""


def open_bundles(settings: BundleSettings, folder: Path) -> VerifiedArtifactStore:
    """Return the configured bundle store. `folder` is the default directory.

    Raises: ConfigError ``settings.invalid``, if the endpoint isn't encrypted or a secret can't be read.
    """
    if settings.kind == "s3":
        return VerifiedArtifactStore(_open_object_storage(settings))
    directory = settings.directory or folder
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return VerifiedArtifactStore(PackedArtifactStore(directory))


def _open_object_storage(settings: BundleSettings) -> SharedBundles:
    # Imported only here, because object storage is optional.
    from obstore.store import S3Store

    from assayd_cluster.bundles.objects import ObjectArtifactStore

    endpoint = settings.endpoint or ""
    if not endpoint.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        message = (
            f"cluster.bundles.endpoint: {endpoint!r} must begin with https:// (http:// is allowed "
            "on loopback)"
        )
        raise ConfigError("settings.invalid", message, field="cluster.bundles.endpoint")
    client = {"allow_http": endpoint.startswith("http://"), "timeout": timedelta(seconds=REQUEST_TIMEOUT_S)}
    if settings.ca_file is not None:
        client["root_certificate"] = settings.ca_file.read_bytes()
    store = S3Store(
        settings.bucket,
        endpoint=endpoint,
        region=settings.region,
        access_key_id=read_secret(settings.access_key_file, "cluster.bundles.access_key_file"),
        secret_access_key=read_secret(settings.secret_key_file, "cluster.bundles.secret_key_file"),
        virtual_hosted_style_request=False,
        client_options=client,  # type: ignore[arg-type]
        # A number alone would end the retries in less than a second if the port is closed.
        retry_config={
            "max_retries": 1000,
            "retry_timeout": timedelta(seconds=MAX_RETRY_S),
            "backoff": {"max_backoff": timedelta(seconds=PAUSE_S)},
        },
    )
    return ObjectArtifactStore(store)
