"""Protocols of class-incremental segmentation by name: 15-1 is 15 classes first, then one a task.

Dong et al. (FBL, CVPR 2023) take 15-1, 4-4 and 8-2 of Pascal VOC's 20 classes and 100-10 of
ADE20k's 150, with ten devices, four more with every task, and shares of their own for each. What of
a task's classes and pictures a device draws:

| setting | classes | pictures with any of them |
| --- | --- | --- |
| 15-1 | all | 40 % |
| 4-4, 8-2 | 50 % | 60 % |
| 100-10 | 70 % | all |
| any other | 50 % | 60 % |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fleetledger.schemas.count_words import count_of
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.scenario.sections import (
    DeviceSettings,
    GroupSettings,
    PartitionSettings,
    StageSettings,
)

Order = Literal["as-is", "seeded"]
FIRST_DEVICES, JOINING_DEVICES = 10, 4
_SHARES = {"15-1": (1.0, 0.4), "100-10": (0.7, 1.0)}
_OTHER_SHARES = (0.5, 0.6)
_NAME = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)")


@dataclass(frozen=True)
class TaskSetting:
    """So many classes with the first task, and so many with each later one."""

    first: int
    step: int

    @classmethod
    def read(cls, name: str) -> TaskSetting:
        """Return the setting of a name like 15-1; raise `PlanError` for another text."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise PlanError(
                f"setting: {name!r}; give the classes of the first task and those of each later "
                "one, like 15-1"
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.first}-{self.step}"

    def stages(self, classes: int, order: Order = "as-is") -> StageSettings:
        """Return the stages for the first so many classes of an order.

        Raises `PlanError` where the classes after the first task do not divide into tasks.
        """
        later = classes - self.first
        if later < 0:
            raise PlanError(
                f"setting: {self} of {count_of(classes, 'class', 'classes')}; give at most "
                f"{classes} to the first task"
            )
        if later % self.step:
            raise PlanError(
                f"setting: {self} of {count_of(classes, 'class', 'classes')} leaves "
                f"{later % self.step} for the last task; take "
                f"{count_of(classes - later % self.step, 'class', 'classes')}, or another setting"
            )
        first = self.first if later else None
        return StageSettings(
            order=order, classes=classes, count=1 + later // self.step, first=first
        )

    def devices(self) -> DeviceSettings:
        """Return FBL's fleet, with the shares of this setting.

        How many of the devices keep to what they have (S_o) is not printed; it is the tenth of LGA,
        which has the same groups.
        """
        class_share, image_share = _SHARES.get(str(self), _OTHER_SHARES)
        return DeviceSettings(
            count=FIRST_DEVICES,
            partition=PartitionSettings(
                rule="class-share", class_share=class_share, image_share=image_share
            ),
            groups=GroupSettings(rule="redrawn", joining=JOINING_DEVICES),
        )
