"""`fleetledger demo` for real: a broker, a coordinator and agents as processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.simulator.cli import BrokerOption, FormOption, _of_demo
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.engines.mqtt.settings import FLEET
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.folder import SeedFolder
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario
from fleetledger.transport.brokers import EmbeddedBroker, find_mosquitto
from tests.simulator.engines.mqtt.small import processes_of

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds after which what is waited for does not happen, however busy the machine is."""
SHORT = ("stages.classes=4", "stages.count=2", "method.settings.map_width=96")
SHORT += ("method.settings.form=exact", "devices.partition.seeds=[]", "seeds=[3]")
AGENTS = ("device-1", "device-2")


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEETLEDGER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def run(out: Path, *changes: str) -> tuple[SeedFolder, RunResults, str]:
    shown = StringIO()
    scenario = load_scenario("demo", (*SHORT, *changes))
    results = run_scenario(scenario, out, Console(file=shown, width=200))
    return SeedFolder(out / "seed-3"), results, shown.getvalue()


@pytest.fixture(scope="module")
def two_agents(tmp_path_factory: pytest.TempPathFactory) -> tuple[SeedFolder, RunResults, str]:
    return run(tmp_path_factory.mktemp("demo") / "run", "devices.count=2")


def evaluated(folder: SeedFolder) -> dict[int, dict[str, int]]:
    """Test images of each class that all devices together were asked about, by model version."""
    asked: dict[int, dict[str, dict[str, int]]] = {}
    with LedgerReader.open_read_only(ledger_path(folder.root / "coordinator")) as ledger:
        for entry in ledger.find(ENTRY_KINDS["device.evaluated"]):
            evaluation = entry.body["evaluation"]
            counts = {name: found["total"] for name, found in evaluation["results"].items()}
            asked.setdefault(evaluation["version"], {})[str(entry.device)] = counts
    return {
        version: {
            name: sum(counts.get(name, 0) for counts in devices.values())
            for name in {name for counts in devices.values() for name in counts}
        }
        for version, devices in asked.items()
    }


def aggregates(records: tuple[StageRecord, ...]) -> list[str]:
    return [record.aggregate for record in records]


@pytest.mark.broker
def test_every_stage_ends_with_its_model_on_every_agent_and_measured_there(two_agents):
    folder, results, shown = two_agents
    counts, asked = split_digits(seed=3).test.counts(), evaluated(folder)
    for record, found in zip(folder.records(), results.first.stages, strict=True):
        seen = [str(digit) for digit in range(2 * record.stage)]
        assert list(record.model_classes) == seen
        assert asked[record.version] == {name: counts[name] for name in seen}
        assert record.accuracy_on_devices == found.accuracy
        assert f"{100 * found.accuracy:.2f} % measured by the devices" in shown
    assert "measured by devices" in (folder.root.parent / "report.html").read_text("utf-8")


@pytest.mark.broker
def test_the_models_on_the_agents_are_as_good_as_the_pooled_reference(two_agents):
    _, results, _ = two_agents
    for stage in results.first.stages:
        assert stage.accuracy > 0.9
        assert abs(stage.accuracy - stage.pooled_accuracy) <= 0.005


@pytest.mark.broker
def test_the_ledger_verifies_and_counts_every_image_once(two_agents):
    folder, _, _ = two_agents
    home, counts = folder.root / "coordinator", split_digits(seed=3).train.counts()
    samples: dict[str, int] = {}
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        assert verify(ledger, Blobs(ledger, BlobStore(str(blob_folder(home))))).ok
        for entry in ledger.find(ENTRY_KINDS["contribution.accepted"]):
            assert entry.body["replaces"] is None
            for name, number in entry.body["part"]["samples"].items():
                samples[name] = samples.get(name, 0) + number
    assert samples == {name: counts[name] for name in ("0", "1", "2", "3")}


@pytest.mark.broker
def test_every_device_has_a_key_that_the_coordinator_confirmed(two_agents):
    folder, _, _ = two_agents
    rings = [KeyRing.beside(folder.root / "agents" / name, FLEET, name) for name in AGENTS]
    assert all(ring.current is not None and ring.waiting is None for ring in rings)
    with LedgerReader.open_read_only(ledger_path(folder.root / "coordinator")) as ledger:
        assert len(list(ledger.find(ENTRY_KINDS["device.invited"]))) == 2


@pytest.mark.broker
def test_logs_are_kept_and_no_program_outlives_the_run(two_agents):
    folder, _, _ = two_agents
    logs = {log.name for log in (folder.root / "logs").iterdir()}
    assert logs == {"coordinator.log", *(f"{name}.log" for name in AGENTS)}
    assert processes_of(folder.root) == []


@pytest.mark.broker
@pytest.mark.skipif(
    find_mosquitto() is None or not EmbeddedBroker.is_installed(), reason="needs both brokers"
)
def test_another_number_of_agents_and_another_broker_give_the_same_sums(two_agents, tmp_path: Path):
    """The exact form: the aggregate does not depend on how the images are spread."""
    folder, _, _ = two_agents
    assert (folder.root / "broker" / "mosquitto.conf").exists()
    other, _, _ = run(tmp_path / "run", "devices.count=3", "engine.broker=amqtt")
    assert (other.root / "broker" / "amqtt.json").exists()
    assert aggregates(other.records()) == aggregates(folder.records())
    assert len(set(aggregates(folder.records()))) == 2


@pytest.mark.broker
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL],
)
def test_an_interrupted_demo_leaves_no_program_behind(tmp_path: Path, number: signal.Signals):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "fleetledger", "demo", "--out", str(out), "--agents", "2"]
    demo = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    end = time.monotonic() + PATIENCE
    while len(list((out / "seed-0" / "logs").glob("*.log"))) < 3:
        assert demo.poll() is None, "the demo ended"
        assert time.monotonic() < end, "the demo did not start"
        time.sleep(0.05)
    assert processes_of(out)
    os.kill(demo.pid, number)
    said, _ = demo.communicate(timeout=PATIENCE)
    end = time.monotonic() + PATIENCE
    assert demo.returncode not in (0, None)
    assert "Traceback" not in said
    while processes_of(out):
        assert time.monotonic() < end, "a program outlived the demo"
        time.sleep(0.05)


def test_the_options_are_settings_of_the_scenario():
    changes = _of_demo(FormOption.exact, BrokerOption.amqtt, seed=7, agents=3)
    scenario = load_scenario("demo", changes)
    assert (scenario.seeds, scenario.devices.count) == ((7,), 3)
    assert (scenario.engine.kind, scenario.engine.broker) == ("mqtt", "amqtt")
    assert scenario.method.settings == {"form": "exact", "map_seed": 7}


def test_without_options_the_demo_is_the_scenario_as_it_ships():
    changes = _of_demo(FormOption.compact, BrokerOption.auto, seed=0, agents=5)
    assert load_scenario("demo", changes) == load_scenario("demo")


def test_the_images_are_dealt_as_they_ever_were():
    plan = PreparedSeed.load(load_scenario("demo"), 0).plan
    dealt = [[len(stage.devices[name].indices) for stage in plan.stages] for name in plan.devices]
    assert dealt == [
        [44, 114, 86, 7, 61],
        [38, 1, 22, 72, 37],
        [63, 20, 30, 84, 55],
        [96, 53, 48, 34, 33],
        [29, 82, 86, 73, 79],
    ]


def test_the_page_shows_what_a_run_prints():
    page, readme = (
        (REPOSITORY / name).read_text("utf-8") for name in ("docs/demo.md", "README.md")
    )
    lines = re.findall(r"seed 0, stage \d: .* answers/s$", page, re.M)
    assert len(lines) == 5
    assert re.findall(r"seed 0, stage \d: .* answers/s$", readme, re.M) == lines
    told = r"\d+\.\d\d % on 10 classes, (\S+) % measured by the devices, (\S+) % pooled, 25 contri"
    last = re.search(told, lines[-1])
    assert last is not None
    measured, pooled = (float(value) for value in last.groups())
    assert abs(measured - pooled) < 1.0, "no worse than all images in one place"
    assert json.dumps(load_scenario("demo").title).strip('"') in page
