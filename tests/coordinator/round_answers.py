"""What a scripted device needs to answer rounds by hand."""

from __future__ import annotations

from pathlib import Path

from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.network_weights import Arrays, decode_weights, grown
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import ClassName, Digest
from tests.coordinator.shell_harness import ScriptedDevice


def asked(device: ScriptedDevice, number: int = 1) -> Assignment:
    """The order of a round, which follows the assignment that opened the stage."""
    count = 1
    while True:
        assignment = device.wait_for(Assignment, count)
        if assignment.round is not None and assignment.round.number == number:
            return assignment
        count += 1


def weights(device: ScriptedDevice, assignment: Assignment, folder: Path) -> Arrays:
    """What an order begins with, fetched as a device does."""
    order = assignment.round
    assert order is not None
    data = device.fetch(order.weights, folder)
    side = training_coordinator("rounds")
    own = side.read_assignment(assignment.settings)
    arrays, known = decode_weights(data, own.network)
    assert known == order.weights_class_names
    return grown(arrays, known, order.class_names, own.settings.seed)


def answer(assignment: Assignment, payload: bytes, **changes: object) -> Contribution:
    assert assignment.round is not None
    number = assignment.round.number
    values = {
        "key": PartKey(stage=assignment.stage, part=number),
        "revision": 0,
        "payload_kind": "weights",
        "method": "rounds",
        "lineage": assignment.lineage,
        "payload": Digest.of(payload),
        "payload_bytes": len(payload),
        "samples": {ClassName("circle"): 5},
        "round": RoundAnswer(number=number, samples=5, steps=1, seconds=0.1),
    }
    return Contribution.model_validate(values | changes)
