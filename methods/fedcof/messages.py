"""What a device is told under FedCOF; what leaves it is in `methods.statistics.class_sums`."""

from __future__ import annotations

from typing import ClassVar

from fleetledger.methods.fedcof.settings import FedcofSettings
from fleetledger.methods.statistics.assignment import FeatureAssignment


class FedcofAssignment(FeatureAssignment[FedcofSettings]):
    """Settings, and the width of the backbone's features; the same for all devices."""

    kind: ClassVar[str] = "fedcof-assignment"
