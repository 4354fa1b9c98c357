"""A fleet that trains a network from outside: the same bits on light agents, workers and MQTT."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rooms import ROOT
from tests.simulator.unrendered import without_pictures

PROGRAM = """
import json
import sys
from pathlib import Path

import torch
from torch import nn

import fleetledger as fl


class Rows(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.first, self.norm = nn.Conv1d(rows, width, 3, padding=1), nn.BatchNorm1d(width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, pictures):
        steps = torch.relu(self.norm(self.first(pictures.flatten(1, 2))))
        return self.dropout(self.lstm(steps.transpose(1, 2))[0][:, -1])


@fl.network("rows")
def rows(shape, width=6):
    return Rows(shape[1], width)


class Small(nn.Sequential):
    def __init__(self, channels):
        super().__init__(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())


@fl.network("small")
def small(shape):
    return Small(shape[0])


SMALL = {
    "data": {"set": "digits", "per_class": 60, "test_per_class": 8},
    "stages": {"lists": [["0", "1"]]},
    "devices": {"count": 20},
    "rounds": {"per_stage": 2, "cohort": 18},
    "method": {"name": "rounds", "settings": {"network": "small", "batch": 4}},
}


if __name__ == "__main__":
    scenario = {
        "data": {"set": "digits", "per_class": 24, "test_per_class": 8},
        "stages": {"lists": [["0", "1"], ["2"]]},
        "devices": {"count": 3},
        "rounds": {"per_stage": 2},
        "method": {"name": "rounds", "settings": {"network": "rows", "batch": 8}},
    }
    scenario = SMALL if sys.argv[2] == "small" else scenario
    for name, engine in json.loads(sys.argv[1]).items():
        fl.simulate(scenario, output=name, engine=engine, progress=False)
"""


def trunks_of(
    tmp_path: Path, engines: dict[str, object], network: str = "rows", width: int = 13
) -> list[tuple[str, list[float]]]:
    """Return the digest of the last trunk, which holds the body's weights, and all accuracies."""
    program = tmp_path / "own.py"
    program.write_text(PROGRAM, encoding="utf-8")
    environment = {
        **without_pictures(ROOT / "src"),
        "FLEETLEDGER_CACHE": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",  # as workers and agents have
    }
    command = [sys.executable, str(program), json.dumps(engines), network]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = []
    for folder in (tmp_path / name / "seed-1" for name in engines):
        lines = (folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
        manifest = json.loads((folder / "model" / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["feature_width"] == width
        assert manifest["logit_scale"] == 1.0  # nothing was held out that could fit another
        accuracies = [json.loads(line)["record"]["accuracy"] for line in lines]
        found.append((manifest["frozen"]["digest"], accuracies))
    return found


@pytest.mark.torch
def test_two_workers_come_to_the_bits_of_one_process(tmp_path: Path) -> None:
    one, two = trunks_of(tmp_path, {"one": "inprocess", "two": {"workers": 2}})
    assert one == two
    assert len(one[1]) == 4


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("mosquitto") is None, reason="mosquitto is not installed")
def test_agents_over_a_broker_come_to_the_bits_of_light_ones(tmp_path: Path) -> None:
    light, agents = trunks_of(tmp_path, {"light": "inprocess", "agents": "mqtt"})
    assert light == agents


@pytest.mark.torch
def test_stacks_of_a_small_network_come_to_the_same_bits_with_any_number_of_workers(
    tmp_path: Path,
) -> None:
    engines: dict[str, object] = {"one": {"workers": 0}, "two": {"workers": 1}}
    engines |= {"three": {"workers": 2}, "loop": {"training": "loop"}}
    one, two, three, loop = trunks_of(tmp_path, engines, "small", 37)
    assert one == two == three
    assert loop[0] != one[0], "the last bits are those of a stack"
