"""The demo for real: a broker, a coordinator and agents as processes, in a shortened run."""

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from coordinator.ledger.reader import LedgerReader
from coordinator.paths import ledger_path
from simulator.datasets.digits import split_digits
from simulator.demo.run import run_demo
from simulator.demo.settings import BrokerChoice, DemoSettings, Form
from transport.brokers import EmbeddedBroker, find_mosquitto

pytestmark = pytest.mark.broker

REPOSITORY = Path(__file__).parents[3]
PATIENCE = 300.0
"""Seconds after which what is waited for does not happen, however busy the machine is."""


def shortened(
    out: Path, *, agents: int = 2, form: Form = "exact", broker: BrokerChoice = "auto"
) -> DemoSettings:
    return DemoSettings(out, form, broker, seed=3, agents=agents, stages=2, map_width=96)


def processes_of(out: Path) -> list[psutil.Process]:
    """Return the running programs that have a path below `out` on their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if any(str(out) in word for word in words) and process.info["status"] != "zombie":
            found.append(process)
    return found


@pytest.fixture(scope="module")
def two_agents(tmp_path_factory) -> tuple[Path, dict, str]:
    out = tmp_path_factory.mktemp("demo") / "run"
    shown = StringIO()
    content = run_demo(shortened(out), Console(file=shown, width=160))
    return out, content, shown.getvalue()


def test_every_stage_ends_with_its_model_on_every_agent(two_agents):
    _, content, _ = two_agents
    split = split_digits(seed=3)
    assert [stage["classes"] for stage in content["stages"]] == [["0", "1"], ["2", "3"]]
    for stage in content["stages"]:
        asked = {name: answers["total"] for name, answers in stage["by_class"].items()}
        seen = [str(digit) for digit in range(2 * stage["stage"])]
        assert asked == {name: split.test.counts()[name] for name in seen}
        assert stage["contributions"] >= 2
        assert stage["providers"] == ["CPUExecutionProvider"]
        assert stage["bytes_up"] > stage["payload_bytes"]
        assert stage["bytes_down"] > 0
    assert content["problems"] == []


def test_the_models_on_the_agents_are_as_good_as_the_pooled_reference(two_agents):
    _, content, _ = two_agents
    for stage in content["stages"]:
        assert stage["accuracy"] > 0.9
        assert abs(stage["difference_points"]) <= 0.5


def test_the_ledger_verifies_and_counts_every_image_once(two_agents):
    out, content, _ = two_agents
    assert content["ledger"]["verified"]
    counts = split_digits(seed=3).train.counts()
    samples: dict[str, int] = {}
    with LedgerReader.open_read_only(ledger_path(out / "coordinator")) as ledger:
        assert ledger.root == content["ledger"]["root"]
        for entry in ledger.entries(kind="contribution.accepted"):
            assert entry.body["replaces"] is None
            for name, number in entry.body["samples"].items():
                samples[name] = samples.get(name, 0) + number
    assert samples == {name: counts[name] for name in ("0", "1", "2", "3")}


def test_the_run_folder_holds_numbers_picture_and_logs(two_agents):
    out, content, shown = two_agents
    assert json.loads((out / "metrics.json").read_text()) == content
    assert (out / "accuracy.png").stat().st_size > 10_000
    assert {log.name for log in (out / "logs").iterdir()} == {
        "coordinator.log",
        "device-1.log",
        "device-2.log",
    }
    assert content["broker"]["description"] in shown
    assert "verified" in shown


def test_no_program_outlives_the_demo(two_agents):
    out, _, _ = two_agents
    assert processes_of(out) == []


@pytest.mark.skipif(
    find_mosquitto() is None or not EmbeddedBroker.is_installed(), reason="needs both brokers"
)
def test_another_number_of_agents_and_another_broker_give_the_same_sums(two_agents, tmp_path: Path):
    """The exact form: the aggregate does not depend on how the images are spread."""
    _, content, _ = two_agents
    assert content["broker"]["kind"] == "mosquitto"
    other = run_demo(
        shortened(tmp_path / "run", agents=3, broker="amqtt"), Console(file=StringIO())
    )
    assert other["broker"]["kind"] == "amqtt"
    digests = [stage["aggregate"] for stage in content["stages"]]
    assert [stage["aggregate"] for stage in other["stages"]] == digests
    assert len(set(digests)) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_demo_leaves_no_program_behind(tmp_path: Path, number: signal.Signals):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "fleetledger", "demo", "--out", str(out), "--agents", "2"]
    demo = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    end = time.monotonic() + PATIENCE
    while len(list((out / "logs").glob("*.log"))) < 3:
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
