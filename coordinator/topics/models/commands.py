"""The operator's commands about models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.models.entries import ImportedFiles
from fleetledger.runtime.strict import Strict


class ImportModel(Strict):
    """Take in a model that was made elsewhere; its files are in the blob store already."""

    verb: Literal["import-model"] = "import-model"
    model: ImportedFiles


class PushModel(DeviceChoice):
    """Make a version desired: on all devices, or on some."""

    verb: Literal["push-model"] = "push-model"
    version: int = Field(ge=1)


class PinDevices(DeviceChoice):
    """Have devices run one version whatever is said of others, or end that."""

    verb: Literal["pin-devices"] = "pin-devices"
    version: int | None = Field(default=None, ge=1)
    """None ends it."""


class HoldModels(Strict):
    """Keep newly solved models from becoming desired, or end that."""

    verb: Literal["hold-models"] = "hold-models"
    held: bool = True


class GoBack(Strict):
    """Go back to a version that all devices were to run before, and hold."""

    verb: Literal["go-back"] = "go-back"
    to: int | None = Field(default=None, ge=1)
    """That version; None for the one before."""
    leaving: int | None = Field(default=None, ge=1)
    """What the operator takes for what all devices are to run, if somebody looked."""
    canaries: bool = False
    """Devices that were told to run a version of their own go back too."""


ModelCommand = ImportModel | PushModel | PinDevices | HoldModels | GoBack
