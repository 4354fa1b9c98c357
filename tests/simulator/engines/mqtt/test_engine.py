"""The engine `mqtt` for real: a broker, a coordinator and agents as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.methods.registry import METHODS
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Engine, Prepared
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.engines.mqtt.programs import LONGEST_DELAY_SECONDS
from fleetledger.simulator.errors import EngineError, ProcessDiedError
from fleetledger.simulator.plan.fleet_plan import DeviceStage, StagePlan
from fleetledger.simulator.records import StageRecord
from tests.outside import added
from tests.simulator.engines.mqtt.small import Quiet, prepare, processes_of, small_scenario

pytestmark = pytest.mark.broker

FIRST, SECOND, THIRD = (DeviceId(f"device-{number}") for number in (1, 2, 3))


def learn_all(engine: Engine, stages: tuple[StagePlan, ...]) -> list[StageRecord]:
    with closing(engine):
        return [engine.learn(stage) for stage in stages]


def digests(records: list[StageRecord]) -> list[tuple[Digest, Digest]]:
    return [(record.aggregate, record.head) for record in records]


def inprocess_digests(prepared: Prepared, folder: Path) -> list[tuple[Digest, Digest]]:
    engine = InProcessEngine(prepared, folder, Quiet())
    return digests(learn_all(engine, prepared.plan.stages))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("features")


@dataclass(frozen=True)
class Ended:
    """A fleet that has learned everything and was stopped."""

    prepared: Prepared
    folder: Path
    records: list[StageRecord]
    watch: Quiet


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Ended:
    folder, watch = tmp_path_factory.mktemp("exact") / "seed-1", Quiet()
    prepared = prepare(small_scenario("exact"), cache)
    with closing(MqttEngine(prepared, folder, watch)) as engine:
        records = [engine.learn(stage) for stage in prepared.plan.stages]
        model = engine.model_folder(records[-1])
    assert model == folder / "model"
    return Ended(prepared, folder, records, watch)


def test_both_engines_give_the_same_sums_and_heads_in_the_exact_form(exact: Ended, tmp_path: Path):
    assert digests(exact.records) == inprocess_digests(exact.prepared, tmp_path)


@pytest.mark.nightly
def test_both_engines_give_the_same_in_the_estimated_form(tmp_path: Path, cache: Path):
    """Whose groups are drawn from the names of device, frozen model and stage."""
    prepared = prepare(small_scenario("estimated"), cache)
    records = learn_all(MqttEngine(prepared, tmp_path / "mqtt", Quiet()), prepared.plan.stages)
    assert digests(records) == inprocess_digests(prepared, tmp_path / "inprocess")


def test_a_record_tells_what_each_device_did_in_the_stage(exact: Ended):
    plan = exact.prepared.plan
    for stage, record in zip(plan.stages, exact.records, strict=True):
        assert (record.stage, record.class_names) == (stage.number, plan.names(stage.classes))
        assert record.opened_by == "operator"
        assert record.model_classes == plan.names(plan.seen(stage.number))
        assert set(record.devices) == set(stage.devices)
        for name, device in record.devices.items():
            images = len(stage.devices[name].indices)
            assert device.online
            assert device.arrived_samples == device.counted_samples == images
            assert device.bytes_up > 0
            assert device.bytes_down > 0
            assert device.compute_seconds > 0
            assert device.answered_seconds is not None
            assert 0 < device.answered_seconds <= record.fleet_seconds
        assert record.peak_memory_mib > 4 * 20
        parts = {"solve", "export", "fleet"}
        assert record.seconds["total"] == pytest.approx(sum(record.seconds[p] for p in parts))
        assert record.seconds["solve"] > 0
        assert record.transitions == ()
    first, second = exact.records
    assert second.contributions > first.contributions >= 3
    # Of the frozen model, which travels once, nothing is counted in the second stage.
    assert all(d.bytes_down < first.devices[n].bytes_down for n, d in second.devices.items())


def test_several_parts_of_a_device_are_cut_in_the_order_of_the_paths(exact: Ended):
    most = exact.prepared.scenario.method.settings["max_samples_per_part"]
    parts: dict[tuple[DeviceId | None, int], list[int]] = {}
    with LedgerReader.open_read_only(ledger_path(exact.folder / "coordinator")) as ledger:
        for entry in ledger.find(ENTRY_KINDS["contribution.accepted"]):
            key = (entry.device, entry.body["part"]["key"]["stage"])
            parts.setdefault(key, []).append(sum(entry.body["part"]["samples"].values()))
    for (device, stage), sizes in parts.items():
        planned = len(exact.prepared.plan.stages[stage - 1].devices[DeviceId(device)].indices)
        assert sizes == [most] * (planned // most) + [planned % most] * (planned % most > 0)
    assert max(len(sizes) for sizes in parts.values()) > 1


def test_images_lie_under_the_paths_that_every_engine_uses(exact: Ended):
    prepared, stage = exact.prepared, exact.prepared.plan.stages[1]
    labels, names = prepared.split.train.labels, prepared.plan.class_names
    folder = exact.folder / "agents" / SECOND / "data"
    wanted = {
        folder / names[labels[index]] / f"stage-02-{index:06}.png"
        for index in stage.devices[SECOND].indices
    }
    assert set(folder.glob("*/stage-02-*")) == wanted


def test_the_model_folder_holds_the_files_that_the_manifest_names(exact: Ended):
    data = (exact.folder / "model" / "manifest.json").read_bytes()
    assert Digest.of(data) == exact.records[-1].manifest
    manifest = Manifest.read(data)
    files = {path.name: path.read_bytes() for path in (exact.folder / "model").iterdir()}
    assert files.keys() == {"manifest.json", *(file.digest for file in manifest.files)}
    assert all(Digest.of(files[file.digest]) == file.digest for file in manifest.files)


def test_somebody_who_watches_sees_phases_and_agents(exact: Ended):
    seen = exact.watch.seen
    assert seen[0] == "starting broker and coordinator"
    assert "starting 3 agents" in seen
    assert seen.count("devices compute") == 2
    assert seen.count("3 of 3") == 2


def test_nothing_runs_when_the_engine_is_closed(exact: Ended):
    assert processes_of(exact.folder) == []


class Killer(Quiet):
    """Kills the coordinator and an agent as soon as a device has done its part of stage 2."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.armed = False

    def agents(self, done: int, total: int) -> None:
        if self.armed and done >= 1:
            self.armed = False
            for home in ("coordinator", f"agents/{SECOND}"):
                (process,) = processes_of(self.folder / home)
                process.kill()


def test_a_run_whose_programs_were_killed_is_gone_on_with(tmp_path: Path, cache: Path):
    """In the middle of the second stage, in the compact form: it cares how images are cut."""
    prepared = prepare(small_scenario("compact"), cache)
    first, second = prepared.plan.stages
    killer = Killer(tmp_path / "mqtt")
    with closing(MqttEngine(prepared, tmp_path / "mqtt", killer)) as engine:
        records = [engine.learn(first)]
        killer.armed = True
        with pytest.raises(EngineError, match="ended by itself"):
            engine.learn(second)
    assert processes_of(tmp_path / "mqtt") == []
    records += learn_all(MqttEngine(prepared, tmp_path / "mqtt", Quiet()), (second,))
    assert digests(records) == inprocess_digests(prepared, tmp_path / "inprocess")
    assert [any("former run" in note for note in record.notes) for record in records] == [
        False,
        True,
    ]
    with LedgerReader.open_read_only(ledger_path(tmp_path / "mqtt" / "coordinator")) as ledger:
        assert len(list(ledger.find(ENTRY_KINDS["stage.opened"]))) == 2
        assert len(list(ledger.find(ENTRY_KINDS["device.admitted"]))) == 3
        assert len(list(ledger.find(ENTRY_KINDS["backbone.imported"]))) == 1


def comes_late_and_goes(prepared: Prepared) -> Prepared:
    """Let the second device miss the first stage, and the third join with the second, late."""
    first, second = prepared.plan.stages
    away = replace(first.devices[SECOND], online=False)
    one = replace(first, devices={FIRST: first.devices[FIRST], SECOND: away})
    late = replace(second.devices[THIRD], group="joined", delay_seconds=60.0)
    gone = DeviceStage(np.empty(0, np.int64), online=False)
    two = replace(second, devices={FIRST: gone, SECOND: second.devices[SECOND], THIRD: late})
    return replace(prepared, plan=replace(prepared.plan, stages=(one, two)))


@pytest.mark.nightly
def test_devices_that_are_away_miss_nothing_and_hold_nobody_up(tmp_path: Path, cache: Path):
    """In the estimated form: what waited is counted for the stage before, in both engines."""
    prepared = comes_late_and_goes(prepare(small_scenario("estimated"), cache))
    one, two = prepared.plan.stages
    first, second = learn_all(MqttEngine(prepared, tmp_path / "mqtt", Quiet()), (one, two))
    assert digests([first, second]) == inprocess_digests(prepared, tmp_path / "inprocess")

    assert set(first.devices) == {FIRST, SECOND}
    assert not first.devices[SECOND].online
    assert first.devices[SECOND].counted_samples == first.devices[SECOND].bytes_up == 0
    assert first.contributions == -(-len(one.devices[FIRST].indices) // 40)

    waited, new = (len(stage.devices[SECOND].indices) for stage in (one, two))
    assert second.devices[SECOND].counted_samples == waited + new
    parts = [-(-number // 40) for number in (waited, new, len(two.devices[THIRD].indices))]
    assert second.contributions == first.contributions + sum(parts)
    assert not second.devices[FIRST].online

    late = second.devices[THIRD]
    assert (late.group, late.online) == ("joined", True)
    assert late.answered_seconds is not None
    assert LONGEST_DELAY_SECONDS <= late.answered_seconds < LONGEST_DELAY_SECONDS + 10
    assert any("60 s" in note for note in second.notes)
    assert not any("60 s" in note for note in first.notes)


def test_more_devices_than_a_machine_takes_are_refused_with_the_way_out(exact: Ended):
    plan = exact.prepared.plan
    devices = {DeviceId(f"device-{i}"): DeviceStage(np.arange(1)) for i in range(51)}
    crowd = replace(plan, stages=(replace(plan.stages[0], devices=devices),))
    with pytest.raises(EngineError, match=r"51 are more than the 50 .*inprocess"):
        MqttEngine(replace(exact.prepared, plan=crowd), exact.folder, Quiet())


PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from tests.outside import added
from tests.simulator.engines.mqtt.small import Quiet, prepare, small_scenario

class Telling(Quiet):
    def phase(self, text):
        print(text, flush=True)

prepared = prepare(small_scenario(), Path(sys.argv[2]))
(stage, _) = prepared.plan.stages
late = {name: replace(device, delay_seconds=60.0) for name, device in stage.devices.items()}
MqttEngine(prepared, Path(sys.argv[1]), Telling()).learn(replace(stage, devices=late))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells children itself")
def test_nothing_outlives_a_simulator_that_is_killed_outright(tmp_path: Path, cache: Path):
    """Not even agents that are paused, and hear nothing."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), str(cache)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )
    assert parent.stdout is not None
    while parent.stdout.readline().strip() != "the stage opens":
        assert parent.poll() is None, "the simulator ended"
    homes = tmp_path / "run"
    stopped = [p for p in processes_of(homes / "agents") if p.status() == "stopped"]
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert len(stopped) == 3
    end = time.monotonic() + 300
    while processes_of(homes):
        assert time.monotonic() < end, "a program outlived the simulator"
        time.sleep(0.05)


def test_a_method_that_a_child_lacks_is_the_reason_at_once(tmp_path: Path, cache: Path):
    """The coordinator's own sentence is the error, not that nobody answered within 30 s."""
    prepared = prepare(small_scenario(), cache)
    method = prepared.scenario.method.model_copy(update={"name": "here-alone"})
    scenario = prepared.scenario.model_copy(update={"method": method})
    prepared, folder = replace(prepared, scenario=scenario), tmp_path / "mqtt"
    with (
        added(METHODS, "here-alone", METHODS["stsa"]),
        closing(MqttEngine(prepared, folder, Quiet())) as engine,
        pytest.raises(ProcessDiedError) as ended,
    ):
        engine.learn(prepared.plan.stages[0])
    first = str(ended.value).splitlines()[0]
    assert first.startswith("coordinator: ended by itself with status 1: ")
    assert "method 'here-alone' is of " in first
    assert "which is not installed here; install it" in first
    assert processes_of(folder) == []
