"""What a device is told under FedNCM; what leaves it is in `methods.statistics.class_sums`."""

from __future__ import annotations

from typing import ClassVar

from fleetledger.methods.fedncm.settings import FedncmSettings
from fleetledger.methods.statistics.assignment import FeatureAssignment


class FedncmAssignment(FeatureAssignment[FedncmSettings]):
    """Settings, and the width of the backbone's features; the same for all devices."""

    kind: ClassVar[str] = "fedncm-assignment"
