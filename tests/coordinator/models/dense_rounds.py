"""Method `rounds` with networks that give every pixel a class, for what no method decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger.coordinator.models import networks
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.methods.registry import descriptor
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.schemas.models import Preprocessing
from tests.coordinator.shell_harness import write_home

SCENES = Preprocessing(
    mode="RGB", size=(16, 24), mean=(0.5,) * 3, deviation=(0.5,) * 3, input_name="image"
)


def let_rounds_segment(monkeypatch: pytest.MonkeyPatch, name: str = "small_dense") -> None:
    """Let the method's descriptor say that it segments, with the dense network of that name."""

    def network(assignment: RoundsAssignment) -> SegmentationNetwork:
        return build_segmentation(name, assignment.input_shape)

    segments = replace(descriptor("rounds"), segments=True)
    monkeypatch.setattr(
        networks, "descriptor", lambda name: segments if name == "rounds" else descriptor(name)
    )
    monkeypatch.setattr(RoundsAssignment, "network", property(network))


def scenes_home(folder: Path, **settings: object) -> Path:
    """Write the settings of a fleet that trains on scenes, and their preprocessing; return it."""
    write_home(folder, "rounds", network="mlp", **settings)
    file = folder / "scenes.json"
    file.write_text(SCENES.model_dump_json(), encoding="utf-8")
    return file
