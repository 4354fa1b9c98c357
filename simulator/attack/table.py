"""The table of attacks, and what the command shows of them; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from fleetledger.runtime.command_report import Column, Report
from fleetledger.simulator.errors import AttackError

DIGITS = "digits"


@dataclass(frozen=True)
class SubjectSettings:
    """Which pictures, and behind which frozen network."""

    data: str = DIGITS
    """`digits`, or a data set in an `.npz` file."""
    network: str | None = None
    """None: a picture's features are its pixels, which hides least."""
    weights: Path | None = None
    """The network's weights as a fleet's file; None: untrained ones of `seed`."""
    mean: float = 0.5
    deviation: float = 0.25
    """Of the network's inputs."""
    seed: int = 0


@dataclass(frozen=True)
class KnownAttack:
    """What an attack reads, and of whose messages."""

    reads: str
    method: str = ""
    """A method of statistics; for `update` a network on frozen features, empty for pictures'."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["part", "revision", "held-revision", "update", "guess", "members"] = "part"
    least: int = 1
    """The fewest images of a class that there is a message of."""


_OWN = {"min_samples_per_class": 1}
_OPEN = {"hold_back": False, "group_minimum": 1}
_PAIRS = {"hold_back": False, "form": "estimated"}
ATTACKS: Mapping[str, KnownAttack] = {
    "guess": KnownAttack("nothing: the mean of others' pictures of the class", kind="guess"),
    "pooled": KnownAttack("features of every image", "pooled"),
    "pooled-moments": KnownAttack(
        "class sums of h and h^2", "pooled", {"publish": "moments", "moments_minimum": 3}, least=3
    ),
    "fed3r": KnownAttack("Gram matrix and class sums", "fed3r", _OWN),
    "stsa-exact": KnownAttack("Gram matrix and class sums", "stsa", {**_OPEN, "form": "exact"}),
    "stsa-compact": KnownAttack("rounded R factor and class sums", "stsa", _OPEN),
    "stsa-estimated": KnownAttack("class sums of groups of two or more", "stsa", _PAIRS),
    "stsa-sums": KnownAttack("class sums of one group", "stsa", {**_PAIRS, "groups": 1}),
    "fedncm": KnownAttack("class sums, which FedCOF sends as well", "fedncm", _OWN),
    "revision": KnownAttack("class sums of two revisions", "fedncm", _OWN, "revision"),
    "revision-held": KnownAttack("the same, companions held", "fedncm", _OWN, "held-revision"),
    "fedavg": KnownAttack("a network after one step", kind="update"),
    "fedhaf": KnownAttack("a module on frozen features after one step", "fam", kind="update"),
    "membership": KnownAttack("a head: was a picture in its sums?", kind="members"),
}
"""Attacks by name. Least numbers of images are switched off, to see what they are for."""


@dataclass(frozen=True)
class AttackLine:
    """An attack, and where it ran what it showed."""

    name: Annotated[str, Column("attack")]
    reads: Annotated[str, Column("reads")]
    images: Annotated[int | None, Column("images", sparse=True)] = None
    """Of one class, in one contribution."""
    psnr: Annotated[float | None, Column("PSNR", "{:.1f}".format, sparse=True)] = None
    """Decibels."""
    ssim: Annotated[float | None, Column("SSIM", "{:.2f}".format, sparse=True)] = None
    gmsd: Annotated[float | None, Column("GMSD", "{:.2f}".format, sparse=True)] = None
    """Deviation of gradient magnitude similarity, which stands for LPIPS; 0 is equal."""
    auc: Annotated[float | None, Column("AUC", "{:.2f}".format, sparse=True)] = None
    """Of membership; 0.5 is chance."""
    found: Annotated[float | None, Column("TPR at 1 % FPR", "{:.2f}".format, sparse=True)] = None
    """Share of the members found where 1 % of the others are taken for members."""
    seconds: Annotated[float | None, Column("seconds", "{:.1f}".format, sparse=True)] = None
    """Of one repeat."""


class AttacksReport(Report):
    """What `attack run` and its `--list` show."""

    lines_field: ClassVar[str | None] = "attacks"
    titles: ClassVar[Mapping[str, str]] = {"attacks": "Attacks"}
    attacks: tuple[AttackLine, ...]
    wrote: tuple[str, ...] = ()
    """Pictures: true ones above those that were found."""


def listed() -> AttacksReport:
    """Return all attacks, none of which has run."""
    return AttacksReport(attacks=tuple(AttackLine(n, one.reads) for n, one in ATTACKS.items()))


def chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of attacks, all where none is given; raise `AttackError` for others."""
    for name in names:
        if name not in ATTACKS:
            raise AttackError(f"attack: {name!r} is unknown; give one of {', '.join(ATTACKS)}")
    return names or tuple(ATTACKS)
