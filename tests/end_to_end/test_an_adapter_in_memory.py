"""An adapter on top of the exact head, with real agents and a real coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fleetledger.coordinator.core.rules import AdapterRules
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import BackboneImported, NetworkImported
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated, ModelSolved
from fleetledger.coordinator.topics.rollouts.entries import RolloutMeasured, RolloutRolledBack
from fleetledger.coordinator.topics.rollouts.plan import ADAPTED
from fleetledger.coordinator.topics.rounds.commands import AdaptModel
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.replay.stories import replay
from tests.end_to_end.memory_fleet import MemoryFleet, put_pictures
from tests.end_to_end.round_fleet import BARS, RoundFleet, rules

pytestmark = pytest.mark.torch

NAMES = ("one", "three", "two")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[RoundFleet]:
    """Three devices that have learned bars by statistics, and run the model of all of these."""
    torch.set_num_threads(1)
    learned = RoundFleet.__new__(RoundFleet)
    # This machine runs all of them, and what else it has to: nobody's latency counts.
    gates = ADAPTED.gates.model_copy(update={"latency": None})
    plan = ADAPTED.model_copy(update={"gates": gates})
    adapter = AdapterRules(held_out=0.3, settings={"rate": 0.5}, plan=plan)
    own = rules().model_copy(update={"adapter": adapter})
    MemoryFleet.__init__(learned, tmp_path, InMemoryBroker(), own, map_width=60, form="exact")
    for number, name in enumerate(NAMES):
        learned.add_with_bars(name, number)
    MemoryFleet.begin(learned, *BARS)
    learned.until(lambda: learned.told(StageClosed))
    # On a busy machine a model of some of the devices may come before that of all.
    learned.until(lambda: [body.contributions for body in learned.told(ModelSolved)][-1:] == [3])
    learned.until(lambda: evaluated(learned, learned.told(ModelSolved)[-1].version))
    yield learned
    learned.close()


def evaluated(fleet: RoundFleet, version: int) -> bool:
    """Whether every device has measured a version."""
    found = [body.evaluation.version for body in fleet.told(DeviceEvaluated)]
    return found.count(version) == len(NAMES)


def test_devices_train_it_judge_it_and_go_on_with_statistics(fleet: RoundFleet) -> None:
    fleet.coordinator.command(AdaptModel())
    # What is right for everything already cannot be better: it ends by itself, and nobody ran it.
    fleet.until(lambda: fleet.told(RolloutRolledBack))
    (network,) = fleet.told(NetworkImported)
    assert network.adapts is not None
    judges = [name for name in NAMES if network.adapts.judges.has(fleet.devices[name].name)]
    assert len(judges) == 1
    assert {device for body in fleet.told(RoundOpened) for device in body.cohort} == (
        set(NAMES) - set(judges)
    )
    (verdict,) = fleet.told(RolloutMeasured)
    (gate,) = [one for one in verdict.gates if one.gate == "better"]
    assert (gate.outcome, gate.counts[-1]) == ("inconclusive", 1)
    (adapted,) = [body.version for body in fleet.told(ModelSolved) if body.method != "stsa"]
    assert not any(body.evaluation.version == adapted for body in fleet.told(DeviceEvaluated))

    for number, device in enumerate(fleet.devices.values()):
        put_pictures(device.data, "spot", range(100 * number, 100 * number + 16))
    fleet.coordinator.open("spot")
    fleet.until(lambda: fleet.told(ModelSolved)[-1].contributions == 6)
    solved = fleet.told(ModelSolved)[-1]
    fleet.until(lambda: evaluated(fleet, solved.version))
    assert (solved.method, solved.class_names) == ("stsa", (*BARS, "spot"))
    first, again = fleet.told(BackboneImported)
    assert first == again
    parts = [body.part for body in fleet.told(ContributionAccepted)]
    given = [part for part in parts if part.payload_kind == "statistics"]
    assert len(given) == solved.contributions == 6, "nobody gave anything twice"
    report = verify(fleet.coordinator.engine.ledger, fleet.coordinator.blobs)
    assert report.ok, str(report)
    code, said = replay(fleet.coordinator.home, "--all")
    assert code == 0, said
