"""`fleetledger new`: write a package of one's own."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class KindArgument(str, Enum):
    """What the package brings."""

    method = "method"
    network = "network"
    dataset = "dataset"
    app = "app"


def new(
    kind: Annotated[KindArgument, typer.Argument(help="What it brings.")],
    name: Annotated[
        str, typer.Argument(help="Its name, and the one that scenarios know: my-method.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the package; new.", show_default="./NAME")
    ] = None,
) -> None:
    """Write a small package of your own, with a test and a scenario, that runs at once."""
    from fleetledger.simulator.new.package import PackageName, write_package  # noqa: PLC0415 - the help page needs none of this

    folder = out or Path(name)
    written = write_package(PackageName(kind.value, name), folder)
    typer.echo(f"{folder} has {', '.join(path.name for path in written)}. Next:")
    for line in (
        f"cd {folder}",
        "pip install -e .",
        "pytest",
        "fleetledger simulate scenario.toml",
    ):
        typer.echo(f"    {line}")
