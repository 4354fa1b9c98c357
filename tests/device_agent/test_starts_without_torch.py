"""The agent in a process where importing torch, onnx and other heavy packages fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKER = """
import sys

class Blocker:
    names = {"torch", "torchvision", "onnx", "sklearn", "matplotlib", "threadpoolctl", "amqtt"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} is blocked in this test", name=name)
        return None

sys.meta_path.insert(0, Blocker())
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKER + code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_the_blocker_blocks(name: str) -> None:
    code = f"""
try:
    import {name}
except ModuleNotFoundError:
    print("blocked")
"""
    assert run(code) == "blocked\n"


def test_the_command_line_starts(tmp_path: Path) -> None:
    code = """
import sys
sys.argv = ["fleetledger", "agent", "init", "--device", "d1", "--fleet", "f", "--home", sys.argv[1]]
from fleetledger import command_line
command_line.main()
"""
    assert "agent.toml" in run(code, str(tmp_path / "home"))
    assert (tmp_path / "home" / "agent.toml").exists()


def test_everything_that_a_running_agent_needs_can_be_imported() -> None:
    code = """
import onnxruntime
from fleetledger.device_agent import __main__
from fleetledger.device_agent.cli import doctor
from fleetledger.device_agent.program import main
from fleetledger.methods.registry import statistics_device
statistics_device("stsa")
print(sorted({name.partition(".")[0] for name in sys.modules} & Blocker.names))
"""
    assert run(code) == "[]\n"


def test_statistics_of_stsa_are_computed() -> None:
    code = """
import json
import numpy as np
from fleetledger.methods.registry import statistics_device
from fleetledger.methods.stsa.messages import StsaAssignment, decode_statistics

settings = {"map": "none", "form": "exact"}
told = StsaAssignment.model_validate({"settings": settings, "feature_width": 3})
H = np.array([[1, 2, 3], [4, 5, 6], [-1, 0, 1]], np.float32)
given = statistics_device("stsa").finish(told, H, ["cat", "dog", "cat"])
found = decode_statistics(given.payload, told)
print(json.dumps([given.samples, found.gram.values.tolist(), found.correlation.values.tolist()]))
"""
    samples, gram, correlation = json.loads(run(code))
    assert samples == {"cat": 2, "dog": 1}
    assert gram == [18, 22, 26, 29, 36, 46], "the upper triangle of H^T H by hand"
    assert correlation == [[0, 2, 4], [4, 5, 6]]


def test_importing_the_agent_loads_neither_numpys_heavy_friends_nor_a_command_line() -> None:
    code = """
import fleetledger.device_agent.program.main
heavy = {"typer", "rich", "click", "onnxruntime", "safetensors", "sqlite_utils", "psutil"}
print(sorted(heavy & set(sys.modules)))
"""
    assert run(code) == "[]\n"
