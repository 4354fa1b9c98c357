"""Rounds of training in the engine `mqtt`: a broker, a coordinator and agents as processes.

Those of the fleet that all compare are robust, so that what such rounds measure is compared, too.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Engine, Prepared
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import StageRecord
from tests.simulator.engines.mqtt.small import processes_of
from tests.simulator.rounds.small import Watching, prepared, small

pytestmark = [pytest.mark.torch, pytest.mark.broker]

ONE_STAGE = {"classes": 2, "count": 1}


def learn_all(engine: Engine, stages: tuple[StagePlan, ...]) -> list[StageRecord]:
    with closing(engine):
        return [engine.learn(stage) for stage in stages]


@dataclass(frozen=True)
class Ended:
    """A fleet that has learned everything and was stopped."""

    prepared: Prepared
    folder: Path
    records: list[StageRecord]
    rounds: list[int]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder, rounds = tmp_path_factory.mktemp("rounds") / "seed-1", []
    terms = {"per_stage": 2, "robust": {"mean": "median", "max_norm": 2.0}}
    fleet = prepared(small(devices={"count": 3}, rounds=terms))
    records = learn_all(MqttEngine(fleet, folder, Watching(rounds.append)), fleet.plan.stages)
    return Ended(fleet, folder, records, rounds)


def test_programs_train_to_the_same_weights_as_a_fleet_in_memory(ended: Ended, tmp_path: Path):
    inprocess = learn_all(
        InProcessEngine(ended.prepared, tmp_path, Watching()), ended.prepared.plan.stages
    )
    assert [record.head for record in ended.records] == [record.head for record in inprocess]
    assert [record.aggregate for record in ended.records] == [
        record.aggregate for record in inprocess
    ]
    programs, agents = (averaged(folder / "coordinator") for folder in (ended.folder, tmp_path))
    assert programs == agents
    assert all(len(norms) == len(cosines) == 3 for *_, norms, cosines in programs)


def averaged(home: Path) -> list[tuple[object, ...]]:
    """Return what the ledger says of each round's sum, without the order of the answers."""
    with closing(LedgerReader.open_read_only(ledger_path(home))) as ledger:
        bodies = [entry.body for entry in ledger.find(WeightsAveraged)]
    told = ("number", "aggregate", "weights", "remarks")
    measured = ("norms", "cosines")
    return [
        (*(body[name] for name in told), *(sorted(body[name]) for name in measured))
        for body in bodies
    ]


def test_each_round_is_recorded_with_what_it_gave(ended: Ended):
    assert ended.rounds == [1, 2, 1, 2]
    for record in ended.records:
        assert [item.number for item in record.rounds] == [1, 2]
        assert all(item.counted == item.asked == 3 for item in record.rounds)
        assert record.rounds[-1].accuracy is not None
        assert record.rounds[-1].loss is not None
        assert record.contributions == 3


def test_bytes_and_samples_of_each_device_are_told(ended: Ended):
    for device in ended.records[-1].devices.values():
        assert device.counted_samples > 0
        assert device.bytes_up > 2 * 4 * 1000
        assert device.bytes_down > 0


def test_nothing_is_left_of_the_programs(ended: Ended):
    assert processes_of(ended.folder) == []


def test_programs_that_wait_for_nobody_come_to_a_model_that_follows_from_the_ledger(
    tmp_path: Path,
):
    terms = {"per_stage": 3, "cohort": 2, "asynchronous": {"buffer": 1}}
    fleet = prepared(small(devices={"count": 2}, stages=ONE_STAGE, rounds=terms))
    records = learn_all(MqttEngine(fleet, tmp_path, Watching()), fleet.plan.stages)
    for record in records:
        assert [item.counted for item in record.rounds] == [1, 1, 1]
        assert record.rounds[-1].accuracy is not None
    result = CliRunner().invoke(cli.app, ["verify", "--home", str(tmp_path / "coordinator")])
    assert result.exit_code == 0, result.output


@pytest.mark.nightly  # noise of the coordinator by day in inprocess/light/test_both_gears.py
def test_programs_clip_and_the_coordinator_adds_noise_of_its_own(tmp_path: Path):
    privacy = {"clip": 0.5, "noise": 0.1}
    private = {"settings": {"privacy": privacy}}
    terms = {"per_stage": 2}
    fleet = prepared(small(method=private, devices={"count": 2}, stages=ONE_STAGE, rounds=terms))
    records = learn_all(MqttEngine(fleet, tmp_path, Watching()), fleet.plan.stages)
    assert all(item.counted == item.asked == 2 for record in records for item in record.rounds)
    home = tmp_path / "coordinator"
    with closing(LedgerReader.open_read_only(ledger_path(home))) as ledger:
        seeds = [entry.body["noise_seed"] for entry in ledger.find(WeightsAveraged)]
    assert len({*seeds}) == 2 * len(records), "each is drawn for its round"
    result = CliRunner().invoke(cli.app, ["verify", "--home", str(home)])
    assert result.exit_code == 0, result.output


@pytest.mark.nightly  # in one process by day, in inprocess/light/workers/test_processes.py
def test_programs_whose_weights_diverge_end_the_run_in_words(tmp_path: Path):
    fleet = prepared(
        small(
            method={"settings": {"rate": 1e30}},
            devices={"count": 1},
            rounds={"void_rounds": 2, "pause_seconds": 0.1},
        )
    )
    with pytest.raises(EngineError, match=r"rounds 1 to 2, 2 came to nothing.*lower rate"):
        learn_all(MqttEngine(fleet, tmp_path / "seed-1", Watching()), fleet.plan.stages)
