"""What a device is told under FedCOF; what leaves it is described in `methods.class_sums`."""

from __future__ import annotations

from typing import ClassVar

from fleetledger.methods.assignment import FeatureAssignment
from fleetledger.methods.fedcof.settings import FedcofSettings


class FedcofAssignment(FeatureAssignment[FedcofSettings]):
    """Settings, and the width of the backbone's features; the same for all devices."""

    kind: ClassVar[str] = "fedcof-assignment"
