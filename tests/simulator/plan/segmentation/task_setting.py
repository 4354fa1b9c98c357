"""Protocols of class-incremental segmentation by name: 15-1 is 15 classes first, then one a task.

Dong et al. (FBL, CVPR 2023) take 15-1, 4-4 and 8-2 of Pascal VOC's 20 classes and 100-10 of
ADE20k's 150, with ten devices, four more with every task, and shares of their own for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleetledger.simulator.plan.partitions import PartitionSettings
from fleetledger.simulator.scenario.sections import (
    DeviceSettings,
    GroupSettings,
    StageSettings,
)

_SHARES = {"15-1": (1.0, 0.4), "100-10": (0.7, 1.0)}
_OTHER_SHARES = (0.5, 0.6)


@dataclass(frozen=True)
class TaskSetting:
    """So many classes with the first task, and so many with each later one."""

    first: int
    step: int

    @classmethod
    def read(cls, name: str) -> TaskSetting:
        return cls(*map(int, name.split("-")))

    def __str__(self) -> str:
        return f"{self.first}-{self.step}"

    def stages(self, classes: int, order: Literal["as-is", "seeded"] = "as-is") -> StageSettings:
        """Return the stages for the first so many classes of an order."""
        later = classes - self.first
        return StageSettings(
            order=order,
            classes=classes,
            count=1 + later // self.step,
            first=self.first if later else None,
        )

    def devices(self) -> DeviceSettings:
        """Return FBL's fleet, with the shares of this setting.

        How many of the devices keep to what they have (S_o) is not printed; it is the tenth of LGA,
        which has the same groups.
        """
        class_share, image_share = _SHARES.get(str(self), _OTHER_SHARES)
        return DeviceSettings(
            count=10,
            partition=PartitionSettings(
                rule="class-share", class_share=class_share, image_share=image_share
            ),
            groups=GroupSettings(rule="redrawn", joining=4),
        )
