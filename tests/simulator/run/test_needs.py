"""What a method lacks here is told with the command that installs it."""

import re

import pytest

from fleetledger.methods.descriptor import LEARN, Descriptor
from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.run import runs


def test_what_is_installed_needs_nothing():
    runs.check_method_runs("stsa")


def test_a_missing_package_is_told_with_its_extra(monkeypatch):
    descriptor = Descriptor(
        "lga", "LGA", "a paper", ("weights",), {LEARN: frozenset({"numpy", "torch"})}
    )
    monkeypatch.setattr(runs, "descriptor", lambda _: descriptor)
    monkeypatch.setattr(runs, "find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(RunError, match=re.escape(f"'lga' needs torch: {pip_install('train')}")):
        runs.check_method_runs("lga")
