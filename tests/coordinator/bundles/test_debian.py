"""The Debian package: what it says, and that dpkg installs it into a clean root, offline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleetledger.coordinator.bundles.bundle_maker import BundleOrder, make_bundle
from fleetledger.coordinator.bundles.debian import make_debian
from fleetledger.coordinator.bundles.targets import TargetName
from fleetledger.coordinator.errors import BundleError
from fleetledger.runtime.bundle_installer import read_keys
from fleetledger.schemas.keys import KeyName, SigningKey
from tests.coordinator.bundles.clean_root import installed_in_a_clean_root
from tests.coordinator.bundles.small_wheels import (
    release_key,
    small_index,
    use_only,
)

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of a small bundle, which lies beside it, for this machine's Python."""
    with pytest.MonkeyPatch.context() as patch:
        return packaged(tmp_path_factory.mktemp("package"), patch, HERE)


def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not here (`apt install dpkg`)")
    key = release_key(tmp_path)
    wheel = small_index(tmp_path / "index")
    use_only(tmp_path / "index", monkeypatch)
    machine = {"x86_64": TargetName.X86_64, "aarch64": TargetName.AARCH64}[os.uname().machine]
    bundle = make_bundle(BundleOrder(wheel, machine, tmp_path, python), key)
    return make_debian(bundle, read_keys(key.verify_key), tmp_path)


def field(package: Path, name: str) -> str:
    words = ["dpkg-deb", "--field", str(package), name]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def listing(package: Path) -> str:
    words = ["dpkg-deb", "--contents", str(package)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_it_asks_for_the_python_that_its_wheels_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = packaged(tmp_path, monkeypatch, "3.10")
    assert field(made, "Depends").startswith("python3 (>= 3.10), python3 (<< 3.11)")
    assert field(made, "Version") == "9.9"
    assert "lib/python3.10/site-packages/for_old_pythons.py" in listing(made)
    assert "bin/python3.10 -> /usr/bin/python3.10" in listing(made)


def test_units_and_users_come_with_it(package: Path) -> None:
    files = listing(package)
    for name in ("agent", "infer", "coordinator", "dashboard"):
        assert f"./usr/lib/systemd/system/fleetledger-{name}.service" in files
    assert "./usr/lib/sysusers.d/fleetledger.conf" in files


def test_nothing_in_it_names_the_machine_that_made_it(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path / "x"], check=True)
    named = [
        path
        for path in (tmp_path / "x").rglob("*")
        if path.is_file() and not path.is_symlink() and sys.prefix.encode() in path.read_bytes()
    ]
    assert named == []


def test_a_bundle_that_is_not_believed_makes_no_package(package: Path, tmp_path: Path) -> None:
    (bundle,) = package.parent.glob("*.bundle")
    other = SigningKey.fresh(KeyName("mill/release"))
    with pytest.raises(BundleError, match="ask whoever made the bundle"):
        make_debian(bundle, read_keys(other.verify_key), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_dpkg_installs_it_into_a_clean_root_without_a_network(
    package: Path, tmp_path: Path
) -> None:
    said = installed_in_a_clean_root(package, tmp_path / "root", "")
    assert "fleetledger 9.9 works" in said
    assert "/opt/fleetledger/pyvenv.cfg" in said
    assert said.rstrip().endswith("removed")
