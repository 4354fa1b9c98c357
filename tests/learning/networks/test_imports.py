"""Descriptions and first weights need no torch, so a coordinator without it can begin a model."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
sys.modules["torch"] = None
from fleetledger.learning.networks.registry import NETWORKS, build_network
from fleetledger.learning.networks.head import grow_head
for name, known in NETWORKS.items():
    if not known.base:
        network = build_network(name, (9,) if known.of_features else (3, 8, 8), "hidden")
        network.check(grow_head(network.initial(0, ["a"]), ["b"], 0), 2)
"""


def test_networks_begin_and_grow_without_torch():
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
