"""What a scenario needs beside the plain install, told before anything begins."""

from __future__ import annotations

from importlib.util import find_spec

from fleetledger.methods.descriptor import LEARN
from fleetledger.methods.registry import descriptor
from fleetledger.schemas.pip_command import pip_install
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import JOINT, trainer_of

EXTRAS = {"onnxruntime": "cpu", "torch": "train"}
"""What a method's descriptor may ask for -> the extra that installs it."""


def check_runs(scenario: Scenario) -> None:
    """Raise `RunError` where a method of the scenario lacks a package here."""
    trainer = trainer_of(scenario)
    if scenario.method.name != JOINT:
        check_method_runs(scenario.method.name)
    if trainer is not None:
        check_method_runs(trainer.method)
    if scenario.rollout is not None and scenario.rollout.candidate.kind == "adapted":
        check_method_runs("rounds")


def check_method_runs(method: str) -> None:
    """Raise `RunError` with the command that mends it where the method lacks a package here."""
    missing = [name for name in sorted(descriptor(method).needs[LEARN]) if find_spec(name) is None]
    if missing:
        extras = ",".join(EXTRAS.get(name, "simulator") for name in missing)
        raise RunError(
            f"method.name: {method!r} needs {' and '.join(missing)}: {pip_install(extras)}"
        )
