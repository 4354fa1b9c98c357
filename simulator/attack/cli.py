"""`fleetledger attack`: try out what can be learned about pictures from what devices send."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.runtime.command_output import ActionReport, AsJson, show, show_action

app = typer.Typer(no_args_is_help=True)


class ModeOption(str, Enum):
    """How prototypes are perturbed."""

    paper = "paper"
    code = "code"


Weights = Annotated[
    Path | None, typer.Option(help="Its weights as a fleet's file; left out, untrained ones.")
]
Mode = Annotated[
    ModeOption, typer.Option(help="Perturb as the paper has it, or the released program.")
]
Steps = Annotated[int | None, typer.Option(help="Steps of the perturbation.", min=1)]
Rate = Annotated[
    float | None, typer.Option(help="Length of a step, times the gradient.", min=1e-12)
]


@app.callback()
def attack() -> None:
    """Try out what somebody learns about pictures from what devices send."""


@app.command()
def run(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ATTACK]...", help="Names of attacks; left out, all of them."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the attacks; run none.")] = False,
    data: Annotated[
        str, typer.Option(metavar="SET", help="`digits`, or an .npz file (docs/datasets.md).")
    ] = "digits",
    images: Annotated[
        list[int] | None,
        typer.Option(
            help="Images of one class in a contribution; may be repeated.",
            min=1,
            max=1000,
            show_default="1 2 5 10",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="Frozen network behind features.", show_default="the pixels themselves"),
    ] = None,
    weights: Weights = None,
    mean: Annotated[float, typer.Option(help="Of the network's inputs.")] = 0.5,
    deviation: Annotated[float, typer.Option(help="Of the network's inputs.", min=1e-6)] = 0.25,
    repeats: Annotated[int, typer.Option(help="Classes that are drawn.", min=1, max=100)] = 3,
    seed: Annotated[int, typer.Option(help="Decides all that is drawn.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for pictures, true ones above those found.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack the payloads of each method, and compare what is found with the true pictures.

    Needs torch, but for `--list`.
    """
    from fleetledger.simulator.attack.table import SubjectSettings, chosen, listed  # noqa: PLC0415 - the help page needs none of this

    if listing:
        show(listed(), as_json=as_json)
        return
    wanted = chosen(tuple(names or ()))
    from fleetledger.simulator.attack.attacks import run_attacks  # noqa: PLC0415 - torch is heavy

    settings = SubjectSettings(data, network, weights, mean, deviation, seed)
    counts = tuple(images or (1, 2, 5, 10))
    show(run_attacks(wanted, settings, counts, repeats, out), as_json=as_json)


@app.command()
def invert(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    pictures: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PICTURE]...", help="A device's pictures of one class."),
    ] = None,
    digit: Annotated[
        int | None, typer.Option(help="A handwritten digit instead, 8 pixels.", min=0, max=9)
    ] = None,
    label: Annotated[str | None, typer.Option(help="Class of the pictures.")] = None,
    side: Annotated[int, typer.Option(help="Pixels a side that files get.", min=4, max=84)] = 32,
    network: Annotated[
        str | None, typer.Option(help="Name of the network.", show_default="resnet8; mlp: digits")
    ] = None,
    weights: Weights = None,
    mode: Mode = ModeOption.paper,
    perturbation_steps: Steps = None,
    perturbation_rate: Rate = None,
    mean: Annotated[float, typer.Option(help="Of the network's inputs.")] = 0.5,
    deviation: Annotated[float, typer.Option(help="Of the network's inputs.", min=1e-6)] = 0.25,
    seed: Annotated[int, typer.Option(help="Decides all that is drawn.", min=0)] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the pictures.", show_default="runs/attack-<time>"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the gradients of a prototype, with and without perturbation, and invert both.

    Writes truth.png, perturbed.png, found-without.png, found-with.png, and side-by-side.png.

    Needs torch.
    """
    from fleetledger.schemas.values import ClassName  # noqa: PLC0415 - the help page needs none of this
    from fleetledger.simulator.attack.eavesdropper import attack  # noqa: PLC0415
    from fleetledger.simulator.attack.report import sentences, write_pictures  # noqa: PLC0415
    from fleetledger.simulator.attack.victim import AttackSettings  # noqa: PLC0415

    settings = AttackSettings(
        pictures=tuple(pictures or ()),
        digit=digit,
        label=None if label is None else ClassName(label),
        side=side,
        network=network or ("resnet8" if digit is None else "mlp"),
        weights=weights,
        mode=mode.value,
        perturbation_steps=perturbation_steps,
        perturbation_rate=perturbation_rate,
        mean=mean,
        deviation=deviation,
        seed=seed,
        out=out or Path("runs", time.strftime("attack-%Y%m%d-%H%M%S")),
    )
    found = attack(settings)
    wrote = tuple(str(path) for path in write_pictures(found, settings.out))
    said = (*sentences(found), *(f"wrote {path}" for path in wrote))
    show_action(ActionReport(said=said, wrote=wrote), typer.echo, as_json=as_json)
