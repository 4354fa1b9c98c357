"""`fleetledger model …`: which models there are, where they run, push one out, take one back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli import common
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.home_reports import model_of, models_of
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.program.operator import POLL_SECONDS
from fleetledger.coordinator.reports.command_previews import preview_back
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.lineages.commands import (
    ImportBackbone,
    ImportNetwork,
    MakeVariants,
)
from fleetledger.coordinator.topics.models import commands as model_commands
from fleetledger.coordinator.topics.models import queries as model_queries
from fleetledger.coordinator.topics.models.entries import ImportedFiles
from fleetledger.coordinator.topics.rounds.commands import AdaptModel
from fleetledger.coordinator.trust.release_key import signed_version, waits_for_key
from fleetledger.export.output_file import check_place
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import AsJson
from fleetledger.schemas.models import Answers, Gives
from fleetledger.schemas.variants import VARIANT_NAMES, VariantName

app = typer.Typer(no_args_is_help=True, help="Models: list, show, push out, hold, take back.")

_PACKED_SECONDS = 30.0
"""How long it is waited for the manifest of an imported model."""

Version = Annotated[
    int, typer.Argument(help="Version of a model.", min=1, autocompletion=completion.versions)
]


@app.command("list")
def list_models(home: Home = HOME, as_json: AsJson = False) -> None:
    """Show every version and on how many devices it runs."""
    command_output.show(models_of(home), as_json=as_json)


@app.command()
def show(version: Version, home: Home = HOME, as_json: AsJson = False) -> None:
    """Show one version: its classes, files, parity, and what it was made from."""
    command_output.show(model_of(home, version), as_json=as_json)


@app.command()
def push(
    version: Version,
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this device; may be given several times.", autocompletion=completion.devices
        ),
    ] = None,
    tag: common.Tagged = None,
    yes: common.Yes = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make a version the desired one, on all devices or on some."""
    chosen = DeviceChoice.read(device, tag)
    body = model_commands.PushModel(version=version, devices=chosen.devices, tags=chosen.tags)
    reaches = common.confirm_push(home, body, version, yes=yes, as_json=as_json)
    common.command(home, body, as_json=as_json, reaches=reaches)


@app.command()
def sign(
    version: Version,
    key: Annotated[Path, typer.Option(help="File of the release key.", dir_okay=False)],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Release a version that waits for it, by a key that is not in the coordinator's home."""
    common.command(home, signed_version(home, version, key, time.time_ns()), as_json=as_json)


@app.command()
def hold(
    release: Annotated[
        bool, typer.Option("--release", help="Let new models go out again.")
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Keep newly solved models from going out by themselves."""
    common.command(home, model_commands.HoldModels(held=not release), as_json=as_json)


@app.command()
def rollback(
    to: Annotated[
        int | None,
        typer.Option(
            help="Go back to this version, and do not ask; the one before if absent.",
            autocompletion=completion.versions,
        ),
    ] = None,
    canaries: Annotated[
        bool, typer.Option("--canaries", help="Take devices with a version of their own along.")
    ] = False,
    yes: common.Yes = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Go back to what all devices were to run before, and hold new models."""
    with ledger_of(home) as ledger:
        step = model_queries.going_back(ledger, to)
        reaches = preview_back(ledger, to, canaries=canaries, unsigned=waits_for_key(home))
    for line in reaches:
        common.say(line, as_json=as_json)
    if to is None:
        command_output.confirm("Go back?", yes=yes, way_out=f"say --to {step.to}, or --yes")
    body = model_commands.GoBack(to=step.to, leaving=step.leaving, canaries=canaries)
    common.command(home, body, as_json=as_json, reaches=reaches)


@app.command("export")
def export_version(
    version: Version,
    out: Annotated[Path, typer.Option(help="ONNX file to write.", dir_okay=False)],
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Sign it for OpenSSF Model Signing by the key in this file, made if absent.",
            dir_okay=False,
        ),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Write a version as one ONNX file, with a JSON file beside it that describes it."""
    from fleetledger.coordinator.models.joined import joined_model  # noqa: PLC0415 - onnx is heavy

    check_place(out)
    joined = joined_model(home, version)
    described = joined.write_to(out)
    lines, wrote = [joined.facts(), f"wrote {out} and {described}"], [out, described]
    if bundle is not None:
        wrote.append(joined.sign(out, bundle))
        lines.append(f"wrote {wrote[-1]}, to be verified with {bundle.stem}.pub")
    common.done(*lines, as_json=as_json, wrote=wrote)


@app.command("export-backbone")
def export_backbone(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    torchvision: Annotated[
        str, typer.Option(help="Classification network of torchvision, such as mobilenet_v2.")
    ],
    weights: Annotated[
        str, typer.Option(help="Its state dict: .pth, .pt or .safetensors; or the word random.")
    ],
    size: Annotated[
        int | None, typer.Option(help="Pixels along a side of a picture; its usual ones if absent.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of --weights random; 0 if absent.", min=0, max=2**32 - 1)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="ONNX file to write; NAME.onnx if absent.", dir_okay=False)
    ] = None,
    import_now: Annotated[
        bool, typer.Option("--import", help="Make it the fleet's frozen model at once.")
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make a frozen feature extractor of a torchvision network: FILE.onnx and FILE.toml."""
    import fleetledger.export.torchvision_backbone as exporter  # noqa: PLC0415 - torch is heavy, and an extra

    place = out or Path(f"{torchvision}.onnx")
    check_place(place)
    file = None if weights == "random" else Path(weights)
    wanted = exporter.TorchvisionRequest(torchvision, file, size, seed)
    exported = exporter.export_torchvision(wanted)
    described = exported.write_to(place)
    following = f"`fleetledger model import-backbone {place} --preprocessing {described}`"
    then = "" if import_now else f"; next: {following}"
    said = (*exported.facts(), f"wrote {place} and {described}{then}")
    if not import_now:
        common.done(*said, as_json=as_json, wrote=[place, described])
        return
    for line in said:
        common.say(line, as_json=as_json)
    import_backbone(place, described, home=home, as_json=as_json)


@app.command("import")
def import_model(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    file: Annotated[Path, typer.Argument(help="ONNX file of a whole model.", dir_okay=False)],
    preprocessing: Annotated[
        Path, typer.Option(help="TOML or JSON file that says how a sample becomes the input.")
    ],
    classes: Annotated[
        Path | None,
        typer.Option(
            help="Names of its scores in their order: one a line, a JSON list, or TOML.",
            dir_okay=False,
        ),
    ] = None,
    answers: Annotated[
        Answers,
        typer.Option(help="What gets a class: a sample, its pixels, or nothing of a raw output."),
    ] = "sample",
    output: Annotated[
        str | None, typer.Option(help="Output that counts, where the model has several.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Node or value to cut at; before the last layer with weights if absent."),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option(help="Sample, or folder of samples, that every device may get to test by."),
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(help="Operator domain that devices allow; may be given several times."),
    ] = None,
    gives: Annotated[
        Gives | None,
        typer.Option(help="What its numbers are; seen in what comes out if absent."),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make a model of your own a version like any other; `model push` sends it out."""
    from fleetledger.coordinator.models import own_models  # noqa: PLC0415 - onnx is heavy

    given = own_models.OwnModelFiles(
        file=file,
        preprocessing=preprocessing,
        classes=classes,
        answers=answers,
        output=output,
        split=split,
        golden=golden,
        domains=tuple(domain or ()),
        gives=gives,
    )
    model = own_models.prepare_own_model(home, given)
    for line in own_models.describe_import(model):
        common.say(line, as_json=as_json)
    common.command(home, model_commands.ImportModel(model=model), as_json=as_json)
    _wait_until_packed(home, model)


def _wait_until_packed(home: Path, model: ImportedFiles) -> None:
    """Wait until a running coordinator has written the manifest, so that a push can follow."""
    deadline = time.monotonic() + _PACKED_SECONDS
    with ledger_of(home) as ledger:
        while not model_queries.is_packed(state_of(ledger).models, model.file.digest):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{model.name}: its manifest is not written yet; see the coordinator's log"
                )
            time.sleep(POLL_SECONDS)


@app.command()
def adapt(
    version: Annotated[
        int | None,
        typer.Argument(
            help="The newest model that was solved, so that no other is meant.",
            min=1,
            autocompletion=completion.versions,
        ),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Train a light adapter on top of the newest solved model; it is kept if shown to be better."""
    common.command(home, AdaptModel(version=version), as_json=as_json)


@app.command("import-backbone")
def import_backbone(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    file: Annotated[Path, typer.Argument(help="ONNX feature extractor.", dir_okay=False)],
    preprocessing: Annotated[
        Path, typer.Option(help="TOML or JSON file that says how an image becomes the input.")
    ],
    pool: Annotated[
        bool, typer.Option("--pool", help="Average a feature map over its pixels.")
    ] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(help="Value, node or module to take features of; may be given several times."),
    ] = None,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Average the features of each picture and its mirror.")
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make an ONNX feature extractor the frozen model that all devices share."""
    from fleetledger.coordinator.models.backbones import prepare_backbone  # noqa: PLC0415 - onnx is heavy
    from fleetledger.export.layers import FeatureChoice  # noqa: PLC0415 - as above

    choice = FeatureChoice(tuple(layer or ()), mirror)
    backbone = prepare_backbone(home, file, preprocessing, choice, pool=pool)
    for remark in backbone.remarks:
        common.say(f"note: {remark}", as_json=as_json)
    common.command(home, ImportBackbone(backbone=backbone), as_json=as_json)


@app.command("import-network")
def import_network(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    preprocessing: Annotated[
        Path, typer.Option(help="TOML or JSON file that says how an image becomes the input.")
    ],
    backbone: Annotated[
        Path | None,
        typer.Option(help="ONNX feature extractor to train on the features of.", dir_okay=False),
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="Average the backbone's feature map over its pixels.")
    ] = False,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="State dict with what nobody trains, of a network like vit_b_16.", dir_okay=False
        ),
    ] = None,
    first_weights: Annotated[
        Path | None,
        typer.Option(help="Weights trained elsewhere to begin with, with a head.", dir_okay=False),
    ] = None,
    trunk: Annotated[
        Path | None,
        typer.Option(
            help="State dict of torchvision's to begin the trunk of a network of pixels with.",
            dir_okay=False,
        ),
    ] = None,
    public_images: Annotated[
        Path | None,
        typer.Option(
            help="Public images (.npz) that all devices get, to distil on.", dir_okay=False
        ),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Begin to train the network that coordinator.toml names, in rounds."""
    from fleetledger.coordinator.models.first_files import FirstFiles  # noqa: PLC0415 - onnx is heavy
    from fleetledger.coordinator.models.networks import prepare_network  # noqa: PLC0415

    first = FirstFiles(first_weights, trunk, public_images)
    network = prepare_network(
        home, preprocessing, backbone, pool=pool, weights_file=weights, first=first
    )
    for remark in network.remarks:
        common.say(f"note: {remark}", as_json=as_json)
    common.command(home, ImportNetwork(network=network), as_json=as_json)


@app.command()
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
        common.command(home, MakeVariants(made=making.no_variants(home)), as_json=as_json)
        return
    if calibration is None:
        for line in making.shown(home):
            common.say(line)
        return
    wanted = VARIANT_NAMES if only is None else (only,)
    prepared = making.prepare_variants(home, calibration, wanted)
    for line in prepared.told():
        common.say(line, as_json=as_json)
    common.command(home, MakeVariants(made=prepared.made), as_json=as_json)
