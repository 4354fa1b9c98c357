"""What this machine has of a scenario, for a run that does without the rest."""

from __future__ import annotations

from pathlib import Path

from fleetledger.simulator.backbones.from_torchvision import weights_file
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.scenario.backbone import BackboneSettings
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.tiny import Absent


def absent_here(scenario: Scenario) -> Absent:
    """Return what the scenario names and is not there; nothing is opened."""
    data, backbone = scenario.data, scenario.backbone
    return Absent(
        data=data.known.on_disk and not _is_there(data.root),
        weights=backbone.weights is not None and not _has_weights(backbone, backbone.weights),
        file=backbone.network == "file" and not _is_there(backbone.file),
        trunk=scenario.method.trunk is not None and not _is_there(scenario.method.trunk),
    )


def classes_here(scenario: Scenario) -> int | None:
    """Return how many classes a data set on this machine has, where the scenario takes all.

    None where it says how many, or where the set is made up. Raises `DatasetError` where it cannot
    be read.
    """
    data = scenario.data
    if scenario.stages.classes is not None or not data.known.on_disk or not _is_there(data.root):
        return None
    return len(load_split(data, scenario.seeds[0]).train.class_names)


def _is_there(path: str | None) -> bool:
    return path is not None and Path(path).expanduser().exists()


def _has_weights(backbone: BackboneSettings, weights: str) -> bool:
    if backbone.network != "torchvision" or backbone.name is None:
        return _is_there(weights)
    try:
        weights_file(backbone.name, weights)
    except BackboneError:
        return False
    return True
