"""Maker of bundles: wheels, their hashes, and a release key's signature over these."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetledger.coordinator.bundles.targets import TARGETS, TargetName
from fleetledger.coordinator.bundles.wheels import Wheelhouse, wheel_names
from fleetledger.coordinator.errors import BundleError
from fleetledger.runtime import bundle_installer
from fleetledger.runtime.bundle_installer import (
    DOMAIN,
    MANIFEST,
    REQUIREMENTS,
    SIGNATURE,
    BundleManifest,
)
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.signatures import KeySignature
from fleetledger.schemas.values import Digest

INSTALLER = "install-bundle.py"
_OWN = "fleetledger"


@dataclass(frozen=True)
class BundleOrder:
    """Which bundle is to be made."""

    wheel: Path
    """Of fleetledger itself."""
    target: TargetName
    out: Path
    python: str | None = None
    """As `3.10`; the target's, or that of this program, if left out."""
    runtime: Path | None = None
    """The ONNX runtime's wheel, where no index has it."""
    constraints: Path | None = None
    extras: tuple[str, ...] = ()
    """Of fleetledger: what else its programs can do on these devices."""

    @property
    def used_python(self) -> str:
        """The Python of the devices."""
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        return self.python or TARGETS[self.target].python or here


def make_bundle(order: BundleOrder, key: SigningKey) -> Path:
    """Make a bundle and the installer beside it; return the bundle. Raises `BundleError`."""
    name, version = wheel_names(order.wheel)
    if name != _OWN:
        raise BundleError(f"{order.wheel}: is {name}; give the wheel of {_OWN}")
    target = TARGETS[order.target]
    short = order.used_python.replace(".", "")
    bundle = order.out / f"{_OWN}-{version}-{order.target.value}-py{short}.bundle"
    with tempfile.TemporaryDirectory() as scratch:
        house = Wheelhouse(Path(scratch), target, order.used_python, order.constraints)
        house.gather(order.wheel, order.runtime, order.extras)
        requirements = "".join(_requirement_lines(house)).encode("ascii")
        files = {f"wheels/{file.name}": file for _, _, file in house.pins()}
        digests = {name: str(Digest.of(file.read_bytes())) for name, file in files.items()}
        manifest = BundleManifest(
            version=version,
            target=order.target.value,
            python=order.used_python,
            machine=target.machine,
            files={**digests, REQUIREMENTS: str(Digest.of(requirements))},
        )
        order.out.mkdir(parents=True, exist_ok=True)
        _write(bundle, manifest, requirements, files, key)
    write_whole(order.out / INSTALLER, Path(bundle_installer.__file__).read_bytes())
    return bundle


def _requirement_lines(house: Wheelhouse) -> Iterator[str]:
    for name, version, file in house.pins():
        yield f"{name}=={version} --hash=sha256:{Digest.of(file.read_bytes())}\n"


def _write(
    bundle: Path,
    manifest: BundleManifest,
    requirements: bytes,
    files: dict[str, Path],
    key: SigningKey,
) -> None:
    """Write the tar file, the same bytes for the same content, whole or not at all."""
    signed = manifest.to_json()
    signature = json.dumps(KeySignature.of(key, DOMAIN, signed).model_dump()).encode("ascii")
    scratch = bundle.with_name(f".{bundle.name}.new")
    with tarfile.open(scratch, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in (
            (MANIFEST, signed),
            (SIGNATURE, signature),
            (REQUIREMENTS, requirements),
        ):
            archive.addfile(_member(name, len(data)), io.BytesIO(data))
        for name, file in sorted(files.items()):
            with file.open("rb") as opened:
                archive.addfile(_member(name, file.stat().st_size), opened)
    scratch.replace(bundle)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member
