"""A Debian package out of a bundle: everything in it is a file of the package, nothing is fetched.

    /opt/fleetledger/                        a virtual environment of the system's Python
    /usr/lib/systemd/system/fleetledger-*.service
    /usr/lib/sysusers.d/fleetledger.conf     the users that the units name

The wheels are unpacked by pip for the target, so a package for another processor is made here too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fleetledger.coordinator.bundles.targets import TARGETS, TargetName
from fleetledger.coordinator.errors import BundleError
from fleetledger.runtime import bundle_installer
from fleetledger.runtime.systemd_units import PROGRAM, ServiceUnit, UnitKind

_PREFIX = PROGRAM.parent.parent
_UNITS = Path("/usr/lib/systemd/system")
_USERS = "/usr/lib/sysusers.d/fleetledger.conf"
_LAUNCHER = """\
#!{prefix}/bin/python
import sys
from fleetledger.command_line import main
sys.exit(main())
"""
_SETTINGS = """\
home = /usr/bin
include-system-site-packages = false
version = {python}
"""
_SYSUSERS = """\
u fleetledger - "fleetledger agent" /var/lib/fleetledger
u fleetledger-coordinator - "fleetledger coordinator" /var/lib/fleetledger-coordinator
"""
_AFTER = """\
#!/bin/sh
set -e
if command -v systemd-sysusers > /dev/null; then systemd-sysusers {users} || true; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
"""


def make_debian(bundle: Path, keys: dict[str, bytes], out: Path) -> Path:
    """Make the package of a bundle, once its signature is right; return its file.

    Raises `BundleError`, also where `dpkg-deb` is not here.
    """
    if shutil.which("dpkg-deb") is None:
        raise BundleError("dpkg-deb: is not here; `apt install dpkg`, or use the bundle itself")
    with tempfile.TemporaryDirectory() as scratch:
        wheels, root = Path(scratch) / "bundle", Path(scratch) / "root"
        wheels.mkdir()
        try:
            manifest = bundle_installer.unpack(bundle, keys, wheels)
        except bundle_installer.InstallerError as error:
            raise BundleError(str(error)) from error
        _environment(root, wheels, manifest)
        for path, text in _files():
            _write(root, path, text)
        _control(root, manifest)
        package = out / f"fleetledger_{manifest.version}_{_architecture(manifest)}.deb"
        out.mkdir(parents=True, exist_ok=True)
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(root), str(package))
    return package


def _environment(root: Path, wheels: Path, manifest: bundle_installer.BundleManifest) -> None:
    """Unpack the wheels into a virtual environment that needs nothing but the system's Python."""
    place = root / _PREFIX.relative_to("/")
    packages = place / "lib" / f"python{manifest.python}" / "site-packages"
    target = TARGETS[TargetName(manifest.target)]
    platforms = [word for tag in target.platforms for word in ("--platform", tag)]
    _run(
        *(sys.executable, "-m", "pip", "--isolated", "install", "--quiet", "--no-deps"),
        *("--no-index", "--no-cache-dir", "--no-compile", "--disable-pip-version-check"),
        *("--require-hashes", "--only-binary", ":all:", "--find-links", str(wheels / "wheels")),
        *("-r", str(wheels / bundle_installer.REQUIREMENTS), "--target", str(packages)),
        *("--implementation", "cp", "--python-version", manifest.python, *platforms),
    )
    bundle_installer.trim(packages)
    shutil.rmtree(packages / "bin", ignore_errors=True)  # they name the Python of this machine
    (place / "bin").mkdir()
    python = f"python{manifest.python}"
    (place / "bin" / python).symlink_to(f"/usr/bin/{python}")
    for name in ("python", "python3"):
        (place / "bin" / name).symlink_to(python)
    _write(root, str(_PREFIX / "pyvenv.cfg"), _SETTINGS.format(python=manifest.python))
    _write(root, str(PROGRAM), _LAUNCHER.format(prefix=_PREFIX), mode=0o755)


def _files() -> Iterator[tuple[str, str]]:
    for kind in UnitKind:
        yield str(_UNITS / kind.file_name), ServiceUnit(kind).text()
    yield _USERS, _SYSUSERS


def _control(root: Path, manifest: bundle_installer.BundleManifest) -> None:
    major, minor = manifest.python.split(".")
    later = f"{major}.{int(minor) + 1}"
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir()) // 1024
    lines = (
        "Package: fleetledger",
        f"Version: {manifest.version}",
        f"Architecture: {_architecture(manifest)}",
        f"Depends: python3 (>= {manifest.python}), python3 (<< {later}), libc6 (>= 2.28)",
        "Suggests: systemd",
        f"Installed-Size: {size}",
        "Maintainer: whoever made this bundle <root@localhost>",
        "Section: science",
        "Priority: optional",
        "Description: fleetledger for devices and coordinators",
        f" Made of the signed bundle for {manifest.target}, Python {manifest.python}.",
    )
    _write(root, "/DEBIAN/control", "\n".join(lines) + "\n")
    _write(root, "/DEBIAN/postinst", _AFTER.format(users=_USERS), mode=0o755)


def _architecture(manifest: bundle_installer.BundleManifest) -> str:
    return TARGETS[TargetName(manifest.target)].debian


def _write(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command, no shell
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise BundleError(f"{command[0]}: failed: {said}")
