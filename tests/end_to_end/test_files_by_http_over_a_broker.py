"""A model goes to devices by HTTPS beside a broker; one that does not reach it has it by blocks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fleetledger.simulator.engines.mqtt.processes import Children
from fleetledger.transport.brokers import MosquittoBroker
from tests.end_to_end.test_kits_over_a_broker import PATIENCE, KitFleet, say
from tests.transport.standalone import running

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
WIDTH = 4096
FROZEN_BYTES = 64 * WIDTH * 4
PREPROCESSING = 'mode = "L"\nsize = [8, 8]\nmean = [0.0]\ndeviation = [1.0]\ninput_name = "image"\n'


def write_model(path: Path) -> None:
    """Write a classifier of grey pictures whose first layer takes a MiB."""
    draw = np.random.default_rng(7)
    weights = {"hidden": draw.normal(size=(64, WIDTH)), "head": draw.normal(size=(WIDTH, 2))}
    nodes = [
        helper.make_node("Flatten", ["image"], ["pixels"]),
        helper.make_node("MatMul", ["pixels", "hidden"], ["sums"]),
        helper.make_node("Relu", ["sums"], ["features"]),
        helper.make_node("MatMul", ["features", "head"], ["logits"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])
    held = [numpy_helper.from_array(one.astype(np.float32), n) for n, one in weights.items()]
    graph = helper.make_graph(nodes, "sides", [image], [logits], held)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    path.with_suffix(".txt").write_text("left\nright\n", encoding="utf-8")
    path.with_suffix(".toml").write_text(PREPROCESSING, encoding="utf-8")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[KitFleet]:
    (tmp_path / "logs").mkdir()
    with Children(tmp_path / "logs") as children:
        yield KitFleet(tmp_path, children)


def push(fleet: KitFleet) -> None:
    model = fleet.folder / "sides.onnx"
    write_model(model)
    words = ("--classes", str(model.with_suffix(".txt")), "--home", str(fleet.home))
    say("model", "import", str(model), "--preprocessing", str(model.with_suffix(".toml")), *words)
    say("model", "push", "1", "--yes", "--home", str(fleet.home))


def run_now(fleet: KitFleet) -> dict[str, int]:
    """Return bytes of files by HTTP and by the broker, once the coordinator has said them."""
    found = json.loads(say("coordinator", "status", "--json", "--home", str(fleet.home)))
    run: dict[str, int] = found["coordinator"]
    return run


def wait_until_runs(fleet: KitFleet, *devices: str) -> None:
    end = time.monotonic() + PATIENCE
    for device in devices:
        status = fleet.folder / device / "status.json"
        while not (status.exists() and json.loads(status.read_text()).get("active_version") == 1):
            assert time.monotonic() < end, device
            time.sleep(0.2)


def log_of(fleet: KitFleet, name: str) -> str:
    return (fleet.folder / "logs" / f"{name}.log").read_text(encoding="utf-8")


def test_devices_with_kits_fetch_by_https_and_who_cannot_by_the_broker(
    mosquitto: MosquittoBroker, fleet: KitFleet
) -> None:
    fleet.provision(2)
    assert (fleet.home / "files.pem").exists()
    with running(fleet.kits / "broker", fleet.port):
        fleet.start_coordinator()
        fleet.start_device(0)
        home = str(fleet.folder / "camera-1")
        kit = str(fleet.kits / "devices" / "camera-1")
        say("agent", "install", kit, "--yes", "--home", home)
        settings = Path(home) / "agent.toml"
        text, found = re.subn(
            r"(?m)^\[files\]\n|^# \[files\]\n", '[files]\ncoordinator = "127.0.0.2"\n',
            settings.read_text(encoding="utf-8"),
        )  # fmt: skip
        settings.write_text(
            text if found else f'{text}\n[files]\ncoordinator = "127.0.0.2"\n', encoding="utf-8"
        )
        fleet._start("camera-1", "agent", "run", "--home", home)
        fleet.wait_until_online(2)
        push(fleet)
        wait_until_runs(fleet, "camera-0", "camera-1")
        end = time.monotonic() + PATIENCE
        run = run_now(fleet)  # both are counted somewhat later than they are fetched
        while min(run["files_by_http"], run["files_by_broker"]) < FROZEN_BYTES:
            assert time.monotonic() < end, run
            time.sleep(0.2)
            run = run_now(fleet)
        assert run["files_by_http"] < 2 * FROZEN_BYTES, "one device alone"
        assert "of files by HTTP" in say("coordinator", "status", "--home", str(fleet.home))
        fleet.children.stop()
    assert log_of(fleet, "camera-1").count("is not reached") == 1
    assert "is not reached" not in log_of(fleet, "camera-0")
