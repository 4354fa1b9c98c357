"""Notes on a stage's draw for readers of the report, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fleetledger.runtime.count_words import agree, count_of
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.labels import Indices, Labels, showing
from fleetledger.simulator.plan.fleet_plan import DeviceStage


def describe_unreached(
    classes: Sequence[int],
    shares: Iterable[Indices],
    labels: Labels,
    class_names: Sequence[ClassName],
) -> str | None:
    """Say how many images of a stage's classes reach no device, and which classes nobody has.

    `labels` are those of all training samples, `shares` index them. None where every image
    has a device.
    """
    held = np.zeros(len(labels), bool)
    for share in shares:
        held[share] = True
    wanted = showing(labels, classes)
    lost = int((wanted & ~held).sum())
    if not lost:
        return None
    missing = [class_names[c] for c in classes if not (held & showing(labels, [c])).any()]
    nobody = f"; nobody has {', '.join(missing)}" if missing else ""
    of, reach = count_of(int(wanted.sum()), "image"), agree(lost, "reaches", "reach")
    return f"{lost} of {of} of the stage {reach} no device{nobody}"


def describe_offline(devices: Iterable[DeviceStage]) -> str | None:
    """Say that no device with images of a stage is online in it; None where one is."""
    if any(device.online and len(device.indices) for device in devices):
        return None
    return "every device with images of the stage is offline in it, so they come later"


def describe_excluded(devices: int) -> str | None:
    """Say how many devices that have joined are never asked; None where all are."""
    if not devices:
        return None
    who = "1 device that has joined is" if devices == 1 else f"{devices} devices that joined are"
    return f"{who} never asked, as devices.groups.newcomers has it"
