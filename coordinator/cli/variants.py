"""`fleetledger model variants`: the frozen part in fewer bits, for devices that run models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator.cli.common import command, say
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.topics.lineages.commands import MakeVariants
from fleetledger.schemas.command_output import AsJson
from fleetledger.schemas.variants import VARIANT_NAMES, VariantName


def variants(
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="Make them on the images of this folder: like those of devices, best in folders "
            "named after their classes.",
            file_okay=False,
        ),
    ] = None,
    only: Annotated[
        VariantName | None,
        typer.Option(help="This one alone; all if absent."),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Let the next models have none.")] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make variants of the frozen model in half precision and 8-bit integers, or show them."""
    from fleetledger.coordinator.models import variants as making  # noqa: PLC0415 - onnx is heavy

    if none and (calibration is not None or only is not None):
        raise CommandError("none: has no meaning with --calibration or --only; say one of them")
    if only is not None and calibration is None:
        raise CommandError("only: what is made needs images; give --calibration FOLDER too")
    if none:
        command(home, MakeVariants(made=making.no_variants(home)), as_json=as_json)
        return
    if calibration is None:
        for line in making.shown(home):
            say(line)
        return
    wanted = VARIANT_NAMES if only is None else (only,)
    prepared = making.prepare_variants(home, calibration, wanted)
    for line in prepared.told():
        say(line, as_json=as_json)
    command(home, MakeVariants(made=prepared.made), as_json=as_json)
