"""Labelled texts in folders, without speakers, through a fleet with an encoder of one's own."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console

from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.model import Scenario
from tests.export.networks import data, value

WORDS = {"sea": "wave salt fish", "sky": "cloud wind bird", "soil": "mud root worm"}
LENGTH, WIDTH = 32, 48


def encoder() -> bytes:
    """The mean of random rows, one for each byte."""
    table = np.random.default_rng(4).normal(size=(257, WIDTH)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [value("tokens", ["N", LENGTH], TensorProto.INT64)],
        [value("mean", ["N", WIDTH])],
        [numpy_helper.from_array(table, "table")],
    )
    return data(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def write(folder: Path) -> None:
    random = np.random.default_rng(1)
    for name, words in WORDS.items():
        (folder / "texts" / name).mkdir(parents=True)
        for number in range(30):
            said = " ".join(random.choice(words.split(), 5))
            path = folder / "texts" / name / f"{number}.txt"
            path.write_text(f"{said} {number}")
    (folder / "bytes.onnx").write_bytes(encoder())
    (folder / "bytes.toml").write_text(
        f'mode = "text"\ntokens = "bytes"\nlength = {LENGTH}\npad_id = 256\ninput_name = "tokens"\n'
    )


def test_a_fleet_learns_classes_of_texts_in_two_stages(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    write(tmp_path)
    scenario = Scenario.model_validate(
        {
            "title": "texts",
            "data": {"set": "text-folder", "root": str(tmp_path / "texts"), "test_share": 0.3},
            "backbone": {"network": "file", "file": str(tmp_path / "bytes.onnx")},
            "stages": {"lists": [["sea", "sky"], ["soil"]]},
            "devices": {"count": 2},
            "method": {"name": "stsa"},
        }
    )
    results = run_scenario(scenario, tmp_path / "run", Console(quiet=True))
    assert [stage.accuracy > 0.8 for stage in results.first.stages] == [True, True]
