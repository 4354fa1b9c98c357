"""The real bundle: made of this checkout with pip, installed and run where there is no network."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fleetledger.coordinator.bundles.bundle_maker import BundleOrder, make_bundle
from fleetledger.coordinator.bundles.debian import make_debian
from fleetledger.coordinator.bundles.targets import TargetName
from fleetledger.coordinator.errors import BundleError
from fleetledger.runtime.bundle_installer import UNUSED, read_keys
from fleetledger.schemas.keys import VerifyKey
from tests.coordinator.bundles.clean_root import SYSTEM_PYTHON, installed_in_a_clean_root
from tests.coordinator.bundles.small_wheels import release_key, without_a_network
from tests.test_packaging import copy_source

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
MACHINE = {"x86_64": TargetName.X86_64, "aarch64": TargetName.AARCH64}[os.uname().machine]
PATIENCE = 120.0


def megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def python_of(environment: Path) -> str:
    (folder,) = (environment / "lib").glob("python3.*")
    return folder.name.removeprefix("python")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, VerifyKey]:
    """A bundle for this machine, and the key by which it is believed."""
    folder = tmp_path_factory.mktemp("bundle")
    copy_source(folder / "source")
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    build = [sys.executable, *words, "--wheel-dir", str(folder), str(folder / "source")]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    key = release_key(folder)
    try:
        order = BundleOrder(next(folder.glob("*.whl")), MACHINE, folder, extras=("serve", "label"))
        return make_bundle(order, key), key.verify_key
    except BundleError as error:
        pytest.skip(f"pip reaches no index that has all of it: {error}")


def test_an_agent_runs_from_the_bundle(made: tuple[Path, VerifyKey], tmp_path: Path) -> None:
    bundle, key = made
    into, home = tmp_path / "opt", tmp_path / "home"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    python = str(SYSTEM_PYTHON) if SYSTEM_PYTHON.exists() else sys.executable

    def runs(*words: str) -> str:
        command = without_a_network(*words)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    installer = str(bundle.with_name("install-bundle.py"))
    runs(python, "-I", installer, str(bundle), "--key", key, "--into", str(into))
    program = str(into / "bin" / "fleetledger")
    named = ("--device", "a", "--fleet", "mill", "--no-data")
    runs(program, "agent", "init", *named, "--home", str(home))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE)
        process = subprocess.Popen(
            without_a_network(program, "agent", "run", "--home", str(home)),
            env={**environment, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stderr=subprocess.DEVNULL,
        )
        try:
            assert listener.recv(100) == b"READY=1"
        finally:
            process.terminate()
            process.wait(PATIENCE)
    assert (home / "status.json").exists()
    pages = "from fleetledger.device_agent.apps.http import server\n"
    pages += "from fleetledger.device_agent.apps.label_page import program"
    runs(str(into / "bin" / "python"), "-c", pages)
    assert megabytes(into) < 205
    packages = into / "lib" / f"python{python_of(into)}" / "site-packages"
    assert not [path for pattern in UNUSED for path in packages.glob(pattern)]
    assert (packages / "numpy").is_dir()
    assert not (packages / "pip").exists()


def test_the_package_of_the_bundle_runs_in_a_clean_root(
    made: tuple[Path, VerifyKey], tmp_path: Path
) -> None:
    bundle, key = made
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not here (`apt install dpkg`)")
    package = make_debian(bundle, read_keys(key), tmp_path)

    said = installed_in_a_clean_root(
        package, tmp_path / "root", "agent init --device a --fleet mill --home /var/lib/a"
    )

    assert "wrote /var/lib/a/agent.toml" in said
    assert "/usr/lib/systemd/system/fleetledger-agent.service" in said
    assert said.rstrip().endswith("removed")
