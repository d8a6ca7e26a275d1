"""Paths of an image are resolved as after a chroot, whatever its links say."""

from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.tree import glob_in_root, resolve_in_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root folder with links like a distribution's, next to a file of the machine."""
    root = tmp_path / "root"
    for folder in ("usr/lib/ssl", "etc/ssl/certs"):
        (root / folder).mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    (root / "usr/lib/ssl/certs").symlink_to("/etc/ssl/certs")
    (tmp_path / "outside").write_text("")
    return root


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("/etc/ssl", "etc/ssl/x"),
        ("//etc/ssl", "etc/ssl/x"),
        ("../../../../etc", "etc/x"),
        ("/lib/ssl/certs", "etc/ssl/certs/x"),
        ("/not/there", "not/there/x"),
    ],
)
def test_link_leads_to_a_place_below_the_root(root: Path, target: str, place: str) -> None:
    (root / "usr/link").symlink_to(target)
    assert resolve_in_root(root, "usr/link/x") == root / place


def test_path_without_links_is_that_below_the_root(root: Path) -> None:
    assert resolve_in_root(root, "usr/lib/new/file") == root / "usr/lib/new/file"


def test_link_to_itself_is_refused_by_its_path(root: Path) -> None:
    (root / "circle").symlink_to("circle")
    with pytest.raises(ConfigError, match="/circle/x passes through more than 40 links") as raised:
        resolve_in_root(root, "circle/x")
    assert raised.value.code == "image.link_loop"


def test_pattern_finds_what_the_links_of_the_image_lead_to(root: Path) -> None:
    (root / "etc/ssl/certs/a.pem").write_text("")
    (root / "out").symlink_to(root.parent)
    assert glob_in_root(root, "lib/ssl/c*s/*.pem") == [root / "etc/ssl/certs/a.pem"]
    assert glob_in_root(root, "**/*.pem") == [root / "etc/ssl/certs/a.pem"]
    assert glob_in_root(root, "usr/lib/*/certs") == [root / "usr/lib/ssl/certs"]
    assert glob_in_root(root, "out/*") == []
