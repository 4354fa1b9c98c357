"""A small fleet that learns alone, and with workers; what must be equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.scenario.model import Scenario
from tests.simulator.engines.inprocess.light.both import Learned, learn, means, said

REMEMBERING_HALVED: dict[str, Any] = {
    "preset": "flwf-2t",
    "exemplars": 12,
    "averaging": "plain",
    "upload": "int16",
}
"""Much of what a device may keep and send at once: digests are equal if each part of it is."""
NOISE_OF_DEVICES: dict[str, Any] = {"privacy": {"clip": 0.5, "noise": 0.3, "where": "local"}}


def with_workers(what: Prepared, number: int = 2, **engine: Any) -> Prepared:
    content = what.scenario.model_dump(mode="json")
    content["engine"] |= {"workers": number, **engine}
    return replace(what, scenario=Scenario.model_validate(content))


def waited_for(*given: Any) -> LightEngine:
    """Return the engine when its workers are there: small runs are over before."""
    engine = LightEngine(*given)
    engine.wait_for_workers()
    return engine


def alone_and_together(what: Prepared, folder: Path, number: int = 1) -> tuple[Learned, Learned]:
    alone = learn(LightEngine, what, folder / "alone")
    return alone, learn(waited_for, with_workers(what, number), folder / "together")


def assert_same(alone: Learned, together: Learned) -> None:
    """Entries lie in the same order, too: nothing tells that there were workers."""
    assert said(together.ledger) == said(alone.ledger)
    devices = [[entry.device for entry, _ in one.ledger] for one in (alone, together)]
    assert devices[0] == devices[1]
    assert means(together) == means(alone)
    assert len(means(alone)) > 0
    assert together.models == alone.models
