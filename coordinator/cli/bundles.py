"""`fleetledger bundle …`: everything that a device needs in one signed file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator.bundles.targets import TargetName
from fleetledger.coordinator.cli.common import done
from fleetledger.coordinator.errors import BundleError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.trust.key_files import read_key
from fleetledger.runtime import bundle_installer
from fleetledger.runtime.bundle_installer import InstallerError
from fleetledger.runtime.command_output import AsJson
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.systemd_units import PROGRAM

app = typer.Typer(no_args_is_help=True, help="Bundles: make, verify, install without a network.")

Bundle = Annotated[Path, typer.Argument(help="File of a bundle.", dir_okay=False)]
Believed = Annotated[
    str, typer.Option("--key", help="The public key, its file, or the fleet's root.json.")
]


@app.command()
def make(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    wheel: Annotated[Path, typer.Argument(help="The wheel of fleetledger.", dir_okay=False)],
    target: Annotated[TargetName, typer.Option(help="What the devices are.")],
    out: Annotated[Path, typer.Option(help="Folder for the bundle.", file_okay=False)] = Path(),
    key: Annotated[
        Path | None,
        typer.Option(help="File of the release key; by default the coordinator's.", dir_okay=False),
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="Python of the devices, such as 3.10.", metavar="X.Y")
    ] = None,
    runtime: Annotated[
        Path | None, typer.Option(help="Wheel of an ONNX runtime fetched by hand.", dir_okay=False)
    ] = None,
    constraint: Annotated[
        Path | None, typer.Option(help="File of pip's that pins versions.", dir_okay=False)
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option(
            help="An extra of fleetledger; `serve` and `label` if none is named, `none` for none."
        ),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Gather all wheels for a kind of device, and sign their hashes."""
    from fleetledger.coordinator.bundles.bundle_maker import BundleOrder, make_bundle  # noqa: PLC0415 - packaging

    signing = read_key(key or home / load(home).release.key)
    extras = tuple(name for name in extra or ["serve", "label"] if name != "none")
    order = BundleOrder(wheel, target, out, python, runtime, constraint, extras)
    bundle = make_bundle(order, signing)
    said = (
        f"wrote {bundle}, {bundle.stat().st_size / 1e6:.0f} MB, signed by {signing.verify_key}",
        f"on a device: python3 install-bundle.py {bundle.name} --key KEY",
    )
    done(*said, as_json=as_json, wrote=[bundle])


@app.command()
def verify(bundle: Bundle, key: Believed, as_json: AsJson = False) -> None:
    """Check the signature of a bundle and every hash in it."""
    with tempfile.TemporaryDirectory() as scratch, _translated():
        found = bundle_installer.unpack(bundle, bundle_installer.read_keys(key), Path(scratch))
    said = (
        f"{bundle} is as it was signed: fleetledger {found.version} for {found.target}, Python "
        f"{found.python}, {count_of(len(found.files) - 1, 'wheel')}"
    )
    done(said, as_json=as_json)


@app.command()
def install(
    bundle: Bundle,
    key: Believed,
    into: Annotated[
        Path, typer.Option(help="Virtual environment, made where it is not.", file_okay=False)
    ] = PROGRAM.parent.parent,
    older: Annotated[
        bool, typer.Option("--older", help="Go back to an older version than is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a bundle and install it, without a network."""
    with _translated():
        keys = bundle_installer.read_keys(key)
        found = bundle_installer.install(bundle, keys, into, older)
    said = f"fleetledger {found.version} is in {into}"
    done(said, as_json=as_json, wrote=[into])


@app.command()
def deb(
    bundle: Bundle,
    key: Believed,
    out: Annotated[Path, typer.Option(help="Folder for the package.", file_okay=False)] = Path(),
    as_json: AsJson = False,
) -> None:
    """Make a Debian package of a verified bundle: environment, units, users."""
    from fleetledger.coordinator.bundles.debian import make_debian  # noqa: PLC0415 - for those who make one

    with _translated():
        package = make_debian(bundle, bundle_installer.read_keys(key), out)
    said = f"wrote {package}, {package.stat().st_size / 1e6:.0f} MB; `dpkg -i` fetches nothing"
    done(said, as_json=as_json, wrote=[package])


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except InstallerError as error:
        raise BundleError(str(error)) from error
