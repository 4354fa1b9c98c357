"""What engines tell a coordinator of rounds, and the network that it begins with."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.rules import (
    BoundRules,
    IntakeRules,
    PrivacyRules,
    RolloutRules,
    RoundRules,
    StageRules,
)
from fleetledger.coordinator.models.backbones import prepare_backbone
from fleetledger.coordinator.models.first_files import FirstFiles
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.settings import FirstStageSection, MethodSection
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone, ImportNetwork
from fleetledger.learning.networks.registry import build_network
from fleetledger.schemas.models import AnyPreprocessing, of_pictures
from fleetledger.simulator.backbones.adapted import frozen_file, frozen_part
from fleetledger.simulator.backbones.backbone import Backbone
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import adapts, trainer_of, trains_on_features

BOUNDS = BoundRules(max_share=1.0, max_round_share=1.0, max_samples_per_class=10**9)
"""Scenarios deal out data as papers do, often most of a class to one device."""
INTAKE = IntakeRules(mib_per_minute=1_000_000, json_mib_per_minute=1_000_000)
"""Of simulated coordinators: answers of any size come as fast as this machine makes them."""
ROLLOUTS = RolloutRules(automatic_from=0)
"""Of scenarios that measure how a fleet learns, whatever its size: a model goes to all at once."""

_PHASES = 2
"""The most that a round has."""
_BETWEEN_SECONDS = 60.0
"""Longer than it takes from one round to the next."""


def round_rules(scenario: Scenario, seed: int) -> RoundRules:
    """Return the rules of the scenario's rounds."""
    rounds, first, rollout = scenario.rounds, scenario.method.first_stage, scenario.rollout
    adapts = rollout is not None and rollout.candidate.kind == "adapted"
    return RoundRules(
        per_stage=rollout.candidate.rounds if rollout and adapts else rounds.per_stage,
        per_first_stage=first.rounds if first is not None else rounds.per_first_stage,
        cohort=rounds.cohort if rounds.cohort is not None else rounds.participation,
        quorum=rounds.quorum,
        deadline_seconds=rounds.deadline_seconds,
        pause_seconds=rounds.pause_seconds,
        void_rounds=rounds.void_rounds,
        asynchronous=rounds.asynchronous,
        robust=rounds.robust,
        seed=seed,
    )


def method_settings(scenario: Scenario, seed: int) -> dict[str, Any]:
    """Return the coordinator's `method` and, where the scenario has it, `first_stage`."""
    method, trainer = scenario.method, trainer_of(scenario)
    if trainer is None:
        return {"method": MethodSection(name=method.name, settings=method.settings)}
    settings = trainer.seeded(seed)
    if method.first_stage is None:
        return {"method": MethodSection(name=trainer.method, settings=settings)}
    return {
        "method": MethodSection(name=method.name, settings=method.settings),
        "first_stage": FirstStageSection(name=trainer.method, settings=settings),
    }


def coordinator_rules(
    scenario: Scenario, seed: int, *, quiet_seconds: float, settle_seconds: float
) -> dict[str, Any]:
    """Return the sections of a coordinator's settings that are the same under every engine.

    The seconds are those without a further answer, and without a further report.
    """
    engine = scenario.engine
    return {
        **method_settings(scenario, seed),
        "rounds": round_rules(scenario, seed),
        "intake": INTAKE,
        "bounds": BOUNDS,
        "privacy": scenario.privacy or PrivacyRules(),
        "rollouts": ROLLOUTS,
        "stages": StageRules(
            quorum=engine.quorum,
            quiet_seconds=quiet_seconds,
            deadline_seconds=engine.deadline_seconds + rounds_seconds(scenario),
            open="reports" if scenario.stages.by_reports else "operator",
            reports_quorum=1,
            settle_seconds=settle_seconds,
        ),
    }


def rounds_seconds(scenario: Scenario) -> float:
    """Return the longest that a stage's rounds take by the fleet's clock; 0 without any."""
    if trainer_of(scenario) is None:
        return 0.0
    rules = round_rules(scenario, 0)
    most = _PHASES * (max(rules.per_stage, rules.per_first_stage or 0) + 1)
    pause = max(rules.pause_seconds, rules.longest_pause_seconds)
    in_vain = rules.void_rounds * (rules.deadline_seconds + pause)
    return most * (rules.deadline_seconds + rules.pause_seconds + _BETWEEN_SECONDS) + in_vain


def backbone_of(prepared: Prepared) -> Backbone | None:
    """Return the frozen network that the fleet's one is trained on; None where it sees pictures."""
    if not trains_on_features(prepared.scenario):
        return None
    return Backbone(prepared.backbone_name, prepared.backbone, prepared.preprocessing)


def first_lineage(home: Path, prepared: Prepared) -> Command:
    """Return the command that begins with the run's network, trained or frozen."""
    if trainer_of(prepared.scenario) is not None:
        return import_network(home, prepared)
    return import_backbone(home, prepared.backbone_name, prepared.backbone, prepared.preprocessing)


def import_backbone(
    home: Path, name: str, data: bytes, preprocessing: AnyPreprocessing
) -> ImportBackbone:
    """Build a frozen model and store its files; return the command that imports it as `name`.

    Raises what `prepare_backbone` raises.
    """
    with tempfile.TemporaryDirectory() as scratch:
        backbone = _written(Path(scratch, f"{name}.onnx"), data)
        spec = _written(Path(scratch, f"{name}.json"), preprocessing.model_dump_json().encode())
        return ImportBackbone(backbone=prepare_backbone(home, backbone, spec, trusted=True))


def import_network(home: Path, prepared: Prepared) -> ImportNetwork:
    """Make the first weights and store them; return the command that imports them.

    Raises what `prepare_network` raises.
    """
    backbone, method = backbone_of(prepared), prepared.scenario.method
    with tempfile.TemporaryDirectory() as scratch:
        spec = prepared.preprocessing.model_dump_json().encode()
        file = _written(Path(scratch, "network.json"), spec)
        first = FirstFiles(
            weights=_first_weights(Path(scratch, "base.safetensors"), prepared),
            trunk=None if method.trunk is None else Path(method.trunk),
            public_images=None if method.public_images is None else Path(method.public_images),
        )
        frozen = None
        if backbone is not None:
            frozen = _written(Path(scratch, f"{backbone.name}.onnx"), backbone.data)
        adapted = _adapted(Path(scratch, "adapted.safetensors"), prepared)
        made = prepare_network(home, file, frozen, weights_file=adapted, first=first)
        return ImportNetwork(network=made)


def _first_weights(path: Path, prepared: Prepared) -> Path | None:
    """Return the file of all first weights: somebody's, or those of a central first stage."""
    given = prepared.scenario.method.first_weights
    if given is not None:
        return Path(given)
    return None if prepared.base is None else _written(path, prepared.base)


def _adapted(path: Path, prepared: Prepared) -> Path | None:
    """Return the file of what nobody trains of a network with adapters; random, it is written."""
    trainer, settings = trainer_of(prepared.scenario), prepared.scenario.backbone
    if trainer is None or not adapts(prepared.scenario):
        return None
    file = frozen_file(settings)
    if file is not None:
        return file
    shape = of_pictures(prepared.preprocessing).shape
    network = build_network(str(trainer.settings["network"]), shape)
    save_file(frozen_part(settings, network), path)
    return path


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
