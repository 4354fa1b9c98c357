"""Checks a bundle of fleetledger and installs it without a network: `python3 install-bundle.py`.

This file stands for itself, with the standard library alone: `fleetledger bundle make` puts a copy
beside each bundle, because the device that it is for has nothing of fleetledger yet. Take it there
by a way that you trust, as you do the key.

A bundle is a tar file of

    bundle.json             target, Python, and the SHA-256 of every other file
    bundle.sig              a release key's signature over bundle.json
    requirements.txt        each package with its version and hash, for pip
    wheels/NAME.whl         all packages, nothing of which is fetched

Nothing is unpacked for use before the signature and every hash are right. The signature is Ed25519
over `DOMAIN || 0x00 || bundle.json`, as all of fleetledger's; it is checked by the package
cryptography where that is there, else by the program openssl (3.0 or later).
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

DOMAIN = "fleetledger/bundle/1"
MANIFEST, SIGNATURE, REQUIREMENTS = "bundle.json", "bundle.sig", "requirements.txt"
_MEMBER = re.compile(r"bundle\.json|bundle\.sig|requirements\.txt|wheels/[A-Za-z0-9][\w.+-]*\.whl")
_KEY = re.compile(r"[^\s+]+\+(?P<hash>[0-9a-f]{8})\+(?P<key>[A-Za-z0-9+/]{44})")
_DER_OF_ED25519 = bytes.fromhex("302a300506032b6570032100")
"""What stands before the 32 bytes of a public key in DER (RFC 8410)."""
UNUSED = (
    "numpy/**/tests",
    "numpy/distutils",
    "numpy/f2py",
    "numpy/**/*.a",
    "onnxruntime/capi/libonnxruntime.so.*",
    "onnxruntime/tools",
    "onnxruntime/transformers",
    "zstandard/_cffi.*.so",
)
"""What packages bring that no program of fleetledger loads: their tests, tools for models of other
kinds, a compiler's glue, a second build for PyPy, static libraries, and the runtime once more for
programs in C: Python has it in its own module."""


class InstallerError(Exception):
    """A bundle is not believed, or not for this machine; the text says why and what to do."""


@dataclass(frozen=True)
class BundleManifest:
    """What `bundle.json` says."""

    version: str
    target: str
    python: str
    """As `3.10`."""
    machine: str
    """As `uname -m` says it."""
    files: dict[str, str]
    """SHA-256 of every file by its name."""

    def to_json(self) -> bytes:
        """Return the bytes that are signed: one text for one manifest."""
        told = {"format": 1, **vars(self)}
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode("ascii")


def read_keys(text: str) -> dict[str, bytes]:
    """Return public keys by their hashes: of NAME+HASH+KEY, its file, or a root's release keys.

    Raises `InstallerError` where there is none.
    """
    if not _KEY.fullmatch(text.strip()):
        try:
            text = Path(text).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise InstallerError(
                f"--key: {text!r} is neither a key nor a file that can be read: {error}"
            ) from error
    if text.lstrip().startswith("{"):
        try:
            text = "\n".join(json.loads(text)["document"]["release_keys"])
        except (ValueError, KeyError, TypeError) as error:
            raise InstallerError(
                "--key: is JSON and no root; give the fleet's root.json"
            ) from error
    found: dict[str, bytes] = {}
    for match in _KEY.finditer(text):
        data = base64.b64decode(match["key"])
        if len(data) == 33 and data[:1] == b"\x01":
            found[match["hash"]] = data[1:]
    if not found:
        raise InstallerError("--key: holds no public key; give NAME+HASH+KEY, or the root.json")
    return found


def unpack(bundle: Path, keys: dict[str, bytes], folder: Path) -> BundleManifest:
    """Unpack a bundle into an empty folder and check all of it; raise `InstallerError`."""
    names = _extract(bundle, folder)
    missing = {MANIFEST, SIGNATURE, REQUIREMENTS} - names
    if missing:
        raise InstallerError(f"{bundle}: has no {', '.join(sorted(missing))}; it is no bundle")
    data = (folder / MANIFEST).read_bytes()
    _check_signature(data, (folder / SIGNATURE).read_bytes(), keys)
    manifest = _manifest(data)
    if set(manifest.files) != names - {MANIFEST, SIGNATURE}:
        raise InstallerError(f"{bundle}: holds other files than were signed; fetch it again")
    for name, digest in manifest.files.items():
        if _digest(folder / name) != digest:
            raise InstallerError(f"{bundle}: {name} is not what was signed; fetch it again")
    return manifest


def check_machine(manifest: BundleManifest, python: str, machine: str) -> None:
    """Raise `InstallerError` where a bundle is for another Python or another processor."""
    if (manifest.python, manifest.machine) != (python, machine):
        raise InstallerError(
            f"the bundle is for Python {manifest.python} on {manifest.machine}, and here is Python "
            f"{python} on {machine}; run it by another Python, or make a bundle with --target and "
            "--python as they are here"
        )


def check_not_older(manifest: BundleManifest, into: Path) -> None:
    """Raise `InstallerError` where a newer fleetledger is installed in `into` than a bundle has.

    A signature is good for ever: an old bundle would bring back what was mended since.
    """
    for found in into.glob("lib/python*/site-packages/fleetledger-*.dist-info"):
        version = found.name[len("fleetledger-") : -len(".dist-info")]
        if _order(version) > _order(manifest.version):
            raise InstallerError(
                f"the bundle has version {manifest.version}, and {version} is in {into}; take a "
                "newer bundle, or say --older to go back"
            )


def _order(version: str) -> list[int]:
    """Return the numbers of a version's release: of 1.10.0.dev3 they are 1, 10 and 0."""
    numbers = []
    for part in version.split("+", 1)[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return numbers


def install(
    bundle: Path, keys: dict[str, bytes], into: Path, older: bool = False
) -> BundleManifest:
    """Check a bundle, and install it into the virtual environment `into`, made where it is not.

    Nothing is fetched. One that is older than what is there is taken with `older` alone. Raises
    `InstallerError`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        manifest = unpack(bundle, keys, folder)
        check_machine(manifest, _python(), platform.machine())
        if not older:
            check_not_older(manifest, into)
        _run("make a virtual environment", sys.executable, "-m", "venv", str(into))
        _run(
            "install the wheels",
            str(into / "bin" / "python"),
            *("-m", "pip", "--isolated", "install", "--quiet", "--no-index", "--no-cache-dir"),
            *("--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"),
            *("--find-links", str(folder / "wheels"), "-r", str(folder / REQUIREMENTS)),
        )
    python = str(into / "bin" / "python")
    _run("remove pip", python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip")
    trim(into / "lib" / f"python{manifest.python}" / "site-packages")
    return manifest


def trim(packages: Path) -> None:
    """Remove what is `UNUSED` from a folder of installed packages."""
    for pattern in UNUSED:
        for path in list(packages.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _extract(bundle: Path, folder: Path) -> set[str]:
    """Write the members of known names, plain files alone; return the names."""
    names: set[str] = set()
    (folder / "wheels").mkdir()
    try:
        with tarfile.open(bundle, "r:") as archive:
            for member in archive:
                plain = member.isreg() and not member.issparse()  # no larger than the bundle is
                source = archive.extractfile(member) if plain else None
                if source is None or not _MEMBER.fullmatch(member.name) or member.name in names:
                    raise InstallerError(f"{bundle}: {member.name!r} is no part of a bundle")
                names.add(member.name)
                with source, (folder / member.name).open("wb") as file:
                    while piece := source.read(1 << 20):
                        file.write(piece)
    except (OSError, tarfile.TarError) as error:
        raise InstallerError(f"{bundle}: cannot be read as a bundle: {error}") from error
    return names


def _check_signature(data: bytes, signature: bytes, keys: dict[str, bytes]) -> None:
    try:
        told = json.loads(signature)
        name, raw = str(told["key"]), base64.b64decode(told["signature"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise InstallerError(f"{SIGNATURE}: is no signature; fetch the bundle again") from error
    key = keys.get(name)
    if key is None:
        raise InstallerError(
            f"{SIGNATURE}: is of the key {name}, and believed are {', '.join(keys)}; ask whoever "
            "made the bundle for the key, by a way that you trust"
        )
    if not _is_signed(DOMAIN.encode() + b"\x00" + data, raw, key):
        raise InstallerError(f"{SIGNATURE}: is not that of {name} over this bundle; do not use it")


def _is_signed(message: bytes, signature: bytes, key: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - may be missing
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PublicKey,
        )
    except ImportError:
        return is_signed_says_openssl(message, signature, key)
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def is_signed_says_openssl(message: bytes, signature: bytes, key: bytes) -> bool:
    """Check a signature by the program openssl; raise `InstallerError` where that cannot."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "key").write_bytes(_DER_OF_ED25519 + key)
        (folder / "message").write_bytes(message)
        (folder / "signature").write_bytes(signature)
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin"]
        for option, name in (("-inkey", "key"), ("-in", "message"), ("-sigfile", "signature")):
            command += [option, str(folder / name)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command, no shell
        except OSError as error:
            raise InstallerError(
                "neither the package cryptography nor the program openssl is here, so no signature "
                "can be checked; `apt install openssl`"
            ) from error
    said = done.stdout + done.stderr
    if done.returncode == 0 and "Verified Successfully" in said:
        return True
    if "Verification Failure" in said:
        return False
    raise InstallerError(f"openssl cannot check the signature, 3.0 or later can: {said.strip()}")


def _manifest(data: bytes) -> BundleManifest:
    try:
        told = dict(json.loads(data))
        if told.pop("format") != 1:
            raise InstallerError(f"{MANIFEST}: is of a later format; take a newer installer")
        manifest = BundleManifest(**told)
    except (ValueError, KeyError, TypeError) as error:
        raise InstallerError(f"{MANIFEST}: cannot be read; take a newer installer") from error
    return manifest


def _digest(file: Path) -> str:
    counted = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(1 << 20):
            counted.update(piece)
    return counted.hexdigest()


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _run(what: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command, no shell
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise InstallerError(f"cannot {what}: {said} (on Debian: `apt install python3-venv`)")


def main(arguments: list[str] | None = None) -> int:
    """Install the bundle that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description="Install fleetledger without a network.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--key", required=True, help="NAME+HASH+KEY, its file, or a root.json")
    parser.add_argument("--into", type=Path, default=Path("/opt/fleetledger"))
    parser.add_argument("--older", action="store_true", help="go back to an older version")
    said = parser.parse_args(arguments)
    try:
        manifest = install(said.bundle, read_keys(said.key), said.into, said.older)
    except InstallerError as error:
        sys.stderr.write(f"install-bundle: {error}\n")
        return 1
    sys.stdout.write(f"fleetledger {manifest.version} is in {said.into}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
