"""A small method that looks for new tasks and has gradients sent to a proxy, for tests."""

import sys
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from fleetledger.methods import registry
from fleetledger.methods.descriptor import LEARN, Descriptor
from fleetledger.methods.training.exchange import (
    ClientUpdate,
    FitInstruction,
    FitJob,
    LocalData,
    Observed,
)
from fleetledger.methods.training.sides import ObservingDevice
from fleetledger.schemas.rounds import Observation

NAME = "watching"
DESCRIPTOR = Descriptor(
    name=NAME,
    title="Watching",
    citation="none",
    payload_kinds=("weights", "gradients"),
    needs={LEARN: frozenset({"numpy"})},
    trains=True,
    observes=True,
    proxy=True,
)


class WatchingDevice(ObservingDevice[Any, Any]):
    """Trains nothing, remembers the rounds, makes the gradients it is told to."""

    def __init__(self, gradients: bytes | None = None) -> None:
        self.gradients = gradients
        self.given: list[tuple[int, bytes | None]] = []
        """Round and memory of every call."""

    def read_assignment(self, body: Any) -> Any:
        return body

    def observe(
        self,
        _told: Any,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        _pictures: Any,
        _engine: Any = None,
    ) -> Observed | None:
        self.given.append((instruction.round.number, memory))
        if not len(data):
            return None
        return Observed(seen(data), _history(instruction, memory))

    def begin(
        self,
        _told: Any,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        _pictures: Any,
        _engine: Any = None,
    ) -> FitJob[Any] | None:
        self.given.append((instruction.round.number, memory))
        if not len(data):
            return None
        samples = dict(Counter(data.class_names))
        return FitJob(None, samples, state=(instruction, data, memory))

    def finish(self, _told: Any, _job: Any, _trained: Any) -> ClientUpdate:
        raise AssertionError("it trains nothing")

    def measured(self, _told: Any, job: FitJob[Any]) -> ClientUpdate:
        order, data, memory = job.state
        return ClientUpdate(
            payload=b"weights of round %d" % order.round.number,
            samples=dict(job.samples),
            steps=1,
            loss=None,
            memory=_history(order, memory),
            observation=seen(data),
            gradients=self.gradients,
        )


def seen(data: LocalData) -> Observation:
    """What it makes of its images: the share of the pixels' largest value as entropy."""
    return Observation(
        entropy=float(data.inputs.mean()) / 255, images=len(data), transition=len(data) > 3
    )


def install(monkeypatch: pytest.MonkeyPatch, gradients: bytes | None = None) -> WatchingDevice:
    """Make the method known under its name, for one test."""
    package = ModuleType(f"fleetledger.methods.{NAME}")
    package.DESCRIPTOR = DESCRIPTOR  # type: ignore[attr-defined]
    module, device = ModuleType(f"fleetledger.methods.{NAME}.device"), WatchingDevice(gradients)
    module.DEVICE = device  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"fleetledger.methods.{NAME}", package)
    monkeypatch.setitem(sys.modules, f"fleetledger.methods.{NAME}.device", module)
    known = registry.Method(f"fleetledger.methods.{NAME}")
    monkeypatch.setattr(registry.METHODS, "_added", {NAME: (known, known.package)})
    registry._imported.cache_clear()  # of an earlier test's
    return device


def _history(instruction: FitInstruction, memory: bytes | None) -> bytes:
    return (memory or b"rounds") + b" %d" % instruction.round.number
