"""What is measured: networks, and the settings of training that trade memory for time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

OLD_CLASSES, NEW_CLASSES = 15, 5
"""A later task of VOC 15-5: 21 rows with the background, an old model of 16."""


@dataclass(frozen=True)
class Plan:
    """Settings of training; `task` 1 has no old model, in task 2 every term of FBL looks at one."""

    network: str
    side: int
    batch: int
    parts: int = 1
    window: int | None = None
    bfloat16: bool = False
    norms_frozen: bool = False
    task: int = 2

    @property
    def title(self) -> str:
        """Name the settings in a line."""
        marks = [f"{self.batch} of {self.side}"]
        if self.parts > 1:
            marks.append(f"{self.parts} parts")
        if self.window is not None:
            marks.append(f"windows of {self.window}")
        marks += ["frozen norms"] * self.norms_frozen + ["bfloat16"] * self.bfloat16
        return ", ".join([*marks, "first task"] if self.task == 1 else marks)

    def fields(self) -> dict[str, str | int | bool | None]:
        """Return the fields, to build the plan again elsewhere."""
        return asdict(self)


def plans(networks: Sequence[str]) -> list[Plan]:
    """Return the plans of some networks."""
    return [plan for name in networks for plan in _plans(name)]


def _plans(name: str) -> list[Plan]:
    if name == "small_dense":
        return [
            *_savings(name, 64, batch=16),
            Plan(name, 64, 16, parts=16, norms_frozen=True),
            *_savings(name, 512, batch=4),
        ]
    if "resnet" in name:  # half a minute for each picture on a processor
        return _of_one(name)
    rows = [*_savings(name, 512, batch=4), Plan(name, 512, 4, 4, norms_frozen=True)]
    if name == "deeplabv3_mobilenet_v3_large":
        rows += [Plan(name, 512, 24, parts=12), Plan(name, 512, 4, parts=2, task=1)]
    return rows


def _savings(name: str, side: int, batch: int) -> list[Plan]:
    half = batch // 2
    return [
        Plan(name, side, batch),
        Plan(name, side, batch, parts=half),
        Plan(name, side, batch, parts=half, bfloat16=True),
        Plan(name, side, batch, parts=half, window=side * 5 // 8),
    ]


def _of_one(name: str) -> list[Plan]:
    return [
        Plan(name, 512, 2),
        Plan(name, 512, 2, 2, norms_frozen=True),
        Plan(name, 512, 2, 2, norms_frozen=True, bfloat16=True),
        Plan(name, 512, 2, 2, norms_frozen=True, window=320),
    ]
