"""Wheels of a few lines, and an index of nothing else, so that bundles are made in a second."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from fleetledger.coordinator.trust.key_files import make_key
from fleetledger.schemas.keys import KeyName, SigningKey

FLEETLEDGER = "fleetledger-9.9-py3-none-any.whl"
MODULE = "def main():\n    import small_part\n    print('fleetledger 9.9', small_part.WORD)\n"
OURS = {"fleetledger/__init__": "", "fleetledger/command_line": MODULE}
SCRIPT = "[console_scripts]\nfleetledger = fleetledger.command_line:main\n"


def write_wheel(folder: Path, name: str, *requires: str, **modules: str) -> Path:
    """Write a wheel of that file name, which asks for others."""
    folder.mkdir(parents=True, exist_ok=True)
    package, version, *_ = name.split("-")
    info = f"{package}-{version}.dist-info"
    tag = name.removesuffix(".whl").split("-", 2)[2]
    asked = "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {f"{module}.py": text for module, text in modules.items()}
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{asked}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if package == "fleetledger":
        files[f"{info}/entry_points.txt"] = SCRIPT
    rows = [
        f"{file},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},{len(text)}"
        for file, text in files.items()
        for digest in [hashlib.sha256(text.encode()).digest()]
    ]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return folder / name


def small_index(folder: Path) -> Path:
    """Write fleetledger and all that it needs; return its own wheel."""
    write_wheel(folder, "small_part-1.0-py3-none-any.whl", small_part="WORD = 'works'\n")
    write_wheel(folder, "for_old_pythons-2.0-py3-none-any.whl", for_old_pythons="")
    write_wheel(folder, "onnxruntime-1.23.0-py3-none-any.whl", onnxruntime="")
    write_wheel(folder, "small_server-3.0-py3-none-any.whl", "small_part", small_server="")
    requires = ("small_part>=1", 'for_old_pythons>=1; python_version < "3.11"')
    extras = [f'small_server>=3; extra == "{name}"' for name in ("serve", "label")]
    return write_wheel(folder, FLEETLEDGER, *requires, *extras, **OURS)


def use_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pip know nothing but the wheels of a folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


def release_key(folder: Path) -> SigningKey:
    """Make a release key in `folder/release.pem`."""
    return make_key(folder / "release.pem", KeyName("mill/release"))


def without_a_network(*words: str) -> list[str]:
    """Return a command that runs where there is no network; skip where that cannot be."""
    for options in (["-n"], ["-r", "-n"]):
        command = ["unshare", *options]
        if (
            shutil.which("unshare")
            and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
        ):
            return [*command, *words]
    pytest.skip("unshare may make no network namespace here")
