"""What training needs installed: torch, NumPy and safetensors, and of this project learning."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch


ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import numpy, torch, safetensors.torch
import torch._dynamo, torch.utils._sympy.functions
before = {name.partition(".")[0] for name in sys.modules}
import importlib
for name in NAMES:
    importlib.import_module(name)
after = {name.partition(".")[0] for name in sys.modules}
print(" ".join(sorted(after - before - set(sys.stdlib_module_names))))
"""


def modules(*packages):
    for package in packages:
        for path in sorted((ROOT / package).glob("*.py")):
            name = "fleetledger." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__")


def new_packages(names):
    program = PROGRAM.replace("NAMES", repr(list(names)))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_training_imports_nothing_beyond_torch_numpy_and_safetensors():
    names = list(modules("learning/training", "learning/networks", "learning/losses"))
    assert len(names) > 30
    assert new_packages(names) == ["fleetledger"]
