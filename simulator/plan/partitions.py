"""How samples are dealt to devices: pure functions of labels and random numbers.

A rule gives one ascending array of positions per device. The same random stream gives the same
partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import shorten
from fleetledger.runtime.registry import Registry, RegistryError
from fleetledger.runtime.strict import NameIn, Strict
from fleetledger.simulator.datasets.labels import Indices, Labels, samples_of
from fleetledger.simulator.datasets.loading import Share
from fleetledger.simulator.errors import PartitionError
from fleetledger.simulator.plan.shares import part_of

MAX_DRAWS = 10_000
"""Attempts after which a skewed partition is given up: the skew leaves some device too little."""


Rule = Callable[[Labels, int, "PartitionSettings", np.random.Generator], list[Indices]]


@dataclass(frozen=True)
class Partition:
    """A rule by the name that `[devices.partition]` gives it."""

    deal: Rule | None
    """Returns the positions of each device from the labels of a stage's samples, (N,), the number
    of devices, the settings and random numbers. None where samples lie with their owners."""
    of_several: bool = False
    """Whether it also takes labels (N, C)."""


def _taken(name: str, value: object) -> Partition:
    """Return the rule by a function of labels (N,), number of devices and random numbers."""
    if isinstance(value, Partition):
        return value
    if not callable(value):
        raise RegistryError(f"partition: {name!r} is {shorten(value)}; give a function")

    def deal(
        labels: Labels, devices: int, _settings: PartitionSettings, random: np.random.Generator
    ) -> list[Indices]:
        parts = [np.asarray(part) for part in value(labels, devices, random)]
        if len(parts) != devices:
            raise PartitionError(
                f"devices.partition.rule: {name!r} gives {count_of(len(parts), 'part')}; one is "
                f"needed for each of {count_of(devices, 'device')}"
            )
        for part in parts:
            _check_positions(name, part, len(labels))
        return [np.sort(part).astype(np.int64) for part in parts]

    return Partition(deal)


def _check_positions(name: str, part: NDArray[Any], samples: int) -> None:
    whole = part.ndim == 1 and (part.dtype.kind in "iu" or not part.size)
    if not whole or not ((part >= 0) & (part < samples)).all():
        raise PartitionError(
            f"devices.partition.rule: {name!r} gives {shorten(part.tolist())}; a part is positions "
            f"from 0 to {samples - 1}"
        )
    if len(np.unique(part)) != len(part):
        raise PartitionError(
            f"devices.partition.rule: {name!r} gives one device a sample twice; give it once"
        )


PARTITIONS = Registry[Partition]("partition", "fleetledger.partitions", _taken)
"""By name; `[devices.partition]` takes a name once it is here."""


class PartitionSettings(Strict):
    """`[devices.partition]`: how a stage's training images are dealt to the devices."""

    rule: Annotated[str, NameIn(PARTITIONS)] = "dirichlet"
    """`iid`: every class is spread evenly (DCID). `dirichlet`: shares of every class are drawn, and
    full devices get no more (STSA). `site-dirichlet`: every device draws its mix of classes, and
    gets as many images as another (DCID). `class-share`: every device draws classes of the stage
    and gets `image_share` of their images, so devices may hold the same image (LGA, FBL).
    `one-class`: every device gets one class of the stage. `owner`: every device is a natural owner,
    such as Omniglot's drawer."""
    beta: float = Field(default=0.5, gt=0)
    """Concentration; smaller is more skewed. Of `dirichlet` for each device, of `site-dirichlet`
    for all classes together: DCID's alpha."""
    full_devices_get_none: bool = True
    """Whether `dirichlet` leaves out devices that hold N/K images already."""
    least_images: int = Field(default=1, ge=0)
    """Images of a stage that every device has at least under `dirichlet`, which draws again until
    it is so. 0, for fleets too large for that, lets devices stay without."""
    class_share: Share = 0.6
    """Share of the stage's classes that a device draws under `class-share`."""
    image_share: Share = 1.0
    """Share of the images of its classes that a device gets under `class-share`."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """A seed for each stage, with which NumPy's default generator deals its images, as another
    program did; left out, the seed of the run decides."""


def partition_evenly(samples: int, devices: int, random: np.random.Generator) -> list[Indices]:
    """Deal `samples` at random; device sizes differ by at most one.

    Raises `PartitionError` when there are fewer samples than devices.
    """
    check_enough(samples, devices, devices)
    return [np.sort(part) for part in np.array_split(random.permutation(samples), devices)]


def partition_by_owner(owners: Indices, devices: Sequence[int]) -> list[Indices]:
    """Return the samples of every device, ascending; a device may have none.

    `owners` (N,) has the owner of each sample; `devices` the owner that each device is. Samples of
    other owners are left out.
    """
    return [np.flatnonzero(owners == owner).astype(np.int64) for owner in devices]


def partition_iid(
    labels: Indices,
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> list[Indices]:
    """Deal every class evenly: the equal random split of DCID, and LANDER's for IID data.

    The samples, shuffled and then sorted by class, are dealt like cards to the devices in a random
    order. So the devices' numbers of samples of a class differ by at most one, and their totals
    too. Raises `PartitionError` when there are fewer samples than devices.
    """
    check_enough(len(labels), devices, devices)
    shuffled = random.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    turns = random.permutation(devices)
    parts: list[Indices] = [np.empty(0, np.int64)] * devices
    for turn, device in enumerate(turns):
        parts[device] = np.sort(by_class[turn::devices])
    return parts


def partition_by_one_class(
    labels: Indices,
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> list[Indices]:
    """Give every device one class, and every class to as many devices as any other, or one less.

    `labels` is (N,). The devices of a class share its samples evenly at random. Raises
    `PartitionError` when there are fewer devices than classes, whose samples would be lost, or a
    class has fewer samples than devices.
    """
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if devices < len(classes):
        raise PartitionError(
            f"devices: {devices} of one class each cannot hold "
            f"{count_of(len(classes), 'class', 'classes')}; give at least "
            f"{count_of(len(classes), 'device')}, or fewer classes a stage"
        )
    places = random.permutation(devices)
    parts: list[Indices] = [np.empty(0, np.int64)] * devices
    for position, members in enumerate(classes):
        holders = places[position :: len(classes)]
        _check_class(len(members), len(holders))
        pieces = np.array_split(random.permutation(members), len(holders))
        for holder, piece in zip(holders, pieces, strict=True):
            parts[holder] = np.sort(piece)
    return parts


def _check_class(samples: int, holders: int) -> None:
    if samples < holders:
        raise PartitionError(
            f"devices: a class of {count_of(samples, 'sample')} falls to "
            f"{count_of(holders, 'device')}; give fewer devices, or more classes a stage"
        )


def partition_by_class_share(
    labels: Labels, devices: int, settings: PartitionSettings, random: np.random.Generator
) -> list[Indices]:
    """Let every device draw `class_share` of the classes, and `image_share` of their images.

    `labels` is (N,), or (N, C) of the C classes that are dealt. Both shares are rounded down, but
    never below one: LGA's int(0.6 * classes) with all images of each, FBL's 0.5 of the classes with
    60 % of their images. Each class gives its share; of images that show several, all together that
    show any class drawn. Devices draw for themselves, so several may hold one image, and an image
    whose class nobody drew, or which nobody drew, is left out of the stage, as in the program of
    LGA.
    """
    if labels.ndim == 2:
        return [_drawn_shown(labels, settings, random) for _ in range(devices)]
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [_drawn(classes, settings, random) for _ in range(devices)]


def _drawn(
    classes: list[Indices], settings: PartitionSettings, random: np.random.Generator
) -> Indices:
    """Return what one device holds, ascending."""
    drawn = _classes(len(classes), settings, random)
    return np.sort(np.concatenate([_images(classes[c], settings, random) for c in drawn]))


def _drawn_shown(
    labels: Labels, settings: PartitionSettings, random: np.random.Generator
) -> Indices:
    """Return what one device holds of samples that show several classes, ascending."""
    drawn = _classes(labels.shape[1], settings, random)
    return np.sort(_images(samples_of(labels, drawn.tolist()), settings, random))


def _classes(classes: int, settings: PartitionSettings, random: np.random.Generator) -> Indices:
    return random.permutation(classes)[: max(1, part_of(settings.class_share, classes))]


def _images(members: Indices, settings: PartitionSettings, random: np.random.Generator) -> Indices:
    number = max(1, part_of(settings.image_share, len(members)))
    return random.permutation(members)[:number]


def partition_by_dirichlet(
    labels: Indices, devices: int, settings: PartitionSettings, random: np.random.Generator
) -> list[Indices]:
    """Deal samples so that each class is spread by shares drawn from Dirichlet(beta, ..., beta).

    `labels` is (N,). For each class, in ascending order, shares are drawn and the shuffled class
    is cut accordingly; all is drawn again until every device has `least_images` samples. With
    `full_devices_get_none` devices that hold N/K samples or more get none of the class and the
    others share it: the routine of the STSA and LANDER programs.

    Raises `PartitionError` when there are too few samples, or no draw gives every device enough.
    """
    check_enough(len(labels), max(1, settings.least_images) * devices, devices)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(MAX_DRAWS):
        shuffled, cuts, held = _draw(classes, devices, settings, random)
        if held.min() >= settings.least_images:
            return _cut(shuffled, cuts, devices)
    raise PartitionError(
        f"beta: {MAX_DRAWS} draws with {settings.beta} all left one of "
        f"{count_of(devices, 'device')} with less than {settings.least_images} of "
        f"{count_of(len(labels), 'sample')}; give a larger beta, fewer devices, or least_images = 0"
    )


def _draw(
    classes: list[Indices],
    devices: int,
    settings: PartitionSettings,
    random: np.random.Generator,
) -> tuple[list[Indices], list[Indices], Indices]:
    """Return the shuffled samples of every class, where to cut them, and what each device holds."""
    fair_share = sum(map(len, classes)) / devices
    held = np.zeros(devices, np.int64)
    shuffled, cuts = [], []
    for members in classes:
        shuffled.append(random.permutation(members))
        full = (held >= fair_share) & settings.full_devices_get_none
        cuts.append(_cuts(_shares(full, settings.beta, random), len(members)))
        held += np.diff(cuts[-1], prepend=0, append=len(members))
    return shuffled, cuts, held


def _shares(
    full: NDArray[np.bool_], beta: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return shares in proportion, zero for full devices.

    Before the last sample is dealt some device is below the fair share, but with a tiny `beta`
    its share may have come out as zero; then the open devices share evenly.
    """
    shares: NDArray[np.float64] = random.dirichlet(np.full(len(full), beta))
    shares[full] = 0.0
    if not shares.sum() > 0:
        shares = (~full).astype(np.float64)
    return shares


def _cuts(shares: NDArray[np.float64], samples: int) -> Indices:
    """Return where to cut `samples` items into consecutive pieces of the given shares.

    Dividing by the last sum makes it exactly one: else rounding could leave a sample to a full
    device at the end.
    """
    sums = np.cumsum(shares)
    cuts: Indices = (sums[:-1] / sums[-1] * samples).astype(np.int64)
    return cuts


def _cut(shuffled: list[Indices], cuts: list[Indices], devices: int) -> list[Indices]:
    """Return the samples of every device, ascending."""
    pieces = [np.split(members, at) for members, at in zip(shuffled, cuts, strict=True)]
    return [np.sort(np.concatenate([piece[k] for piece in pieces])) for k in range(devices)]


def partition_by_site_dirichlet(
    labels: Indices, devices: int, settings: PartitionSettings, random: np.random.Generator
) -> list[Indices]:
    """Let every device draw its mix of the C classes from Dirichlet(beta p), p_c = 1 / C.

    DCID's non-IID sites, as Hsu et al. deal them (arXiv 1909.06335): devices take turns, and each
    takes an image of a class drawn by its mix, renormalised to classes of which images are left.
    `labels` is (N,); numbers of images differ by at most one. Raises `PartitionError` where there
    are fewer images than devices.
    """
    check_enough(len(labels), devices, devices)
    names, members = np.unique(labels, return_inverse=True)
    left = [random.permutation(np.flatnonzero(members == c)).tolist() for c in range(len(names))]
    mixes = random.dirichlet(np.full(len(names), settings.beta / len(names)), devices)
    parts: list[list[int]] = [[] for _ in range(devices)]
    open_ = np.ones(len(names))
    for turn, point in enumerate(random.random(len(labels))):
        mix = mixes[turn % devices] * open_
        sums = np.cumsum(mix if mix.sum() > 0 else open_)
        chosen = int(np.searchsorted(sums, point * sums[-1], side="right"))
        parts[turn % devices].append(left[chosen].pop())
        open_[chosen] = bool(left[chosen])
    return [np.sort(np.array(part, np.int64)) for part in parts]


def check_enough(samples: int, least: int, devices: int) -> None:
    """Raise `PartitionError` unless there are devices, and at least `least` samples for them."""
    if devices < 1 or samples < least:
        raise PartitionError(
            f"devices: {devices} cannot share {count_of(samples, 'sample')} with at least "
            f"{least // devices if devices else 1} each; give fewer devices or more samples"
        )


PARTITIONS.own(
    {
        "iid": Partition(partition_iid),
        "dirichlet": Partition(partition_by_dirichlet),
        "site-dirichlet": Partition(partition_by_site_dirichlet),
        "class-share": Partition(partition_by_class_share, of_several=True),
        "one-class": Partition(partition_by_one_class),
        "owner": Partition(None),
    }
)
