"""What the template's program does for its clones."""

from __future__ import annotations

import pytest

from assayd.engines.oci import template


def test_masks_of_folders_and_files_need_one_mount_each(monkeypatch: pytest.MonkeyPatch):
    tried: list[tuple[bytes, bytes]] = []

    class Libc:
        @staticmethod
        def mount(source: bytes, target: bytes, *_: object) -> int:
            tried.append((source, target))
            return 0

    monkeypatch.setattr(template, "_libc", Libc)
    template._mask_path("/proc/acpi", is_folder=True)
    template._mask_path("/proc/kcore", is_folder=False)
    assert tried == [(b"/sandbox/empty", b"/proc/acpi"), (b"/dev/null", b"/proc/kcore")]
