"""Package sources: only the distribution's own, trusted, for this architecture."""

from pathlib import Path

from assayd.imaging.packages import PackageSource, compute_package_lists_digest, parse_apt_targets

TARGET = """MetaKey: main/binary-amd64/Packages
Filename: {folder}/archive.example_debian_dists_stable_main_binary-amd64_Packages.lz4
Origin: {origin}
Trusted: {trusted}
Architecture: {architecture}
Component: main
Release: stable
Repo-URI: http://archive.example/debian/
"""


def target(folder: Path, **changes: str) -> str:
    fields = {"origin": "Debian", "trusted": "yes", "architecture": "amd64", "folder": str(folder)}
    return TARGET.format(**(fields | changes))


def test_own_source_is_found_with_its_lists(tmp_path: Path) -> None:
    release = tmp_path / "archive.example_debian_dists_stable_InRelease"
    release.write_text("x")
    (source,) = parse_apt_targets("\n".join([target(tmp_path)] * 2), "debian", "amd64")
    assert source.line == "deb [trusted=yes] http://archive.example/debian/ stable main"
    assert source.release == (release,)


def test_foreign_untrusted_and_other_architecture_are_left_out(tmp_path: Path) -> None:
    changes = [{"origin": "Somebody"}, {"trusted": "no"}, {"architecture": "armhf"}]
    targets = "\n".join(target(tmp_path, **change) for change in changes)
    assert parse_apt_targets(targets, "debian", "amd64") == []


def test_state_follows_the_release_file(tmp_path: Path) -> None:
    release = tmp_path / "InRelease"
    source = PackageSource(line="deb x", lists=(), release=(release,))
    release.write_text("monday")
    before = compute_package_lists_digest([source])
    release.write_text("tuesday")
    assert compute_package_lists_digest([source]) != before
