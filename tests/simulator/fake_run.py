"""A run as the simulator would leave it, drawn from a seed: no fleet, no model, real formats."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.measurement import measure_seed
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.results import RunResults, summarise
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan
from fleetledger.simulator.records import (
    DeviceRecord,
    InferenceRecord,
    NoveltyCheckRecord,
    ProxyRecord,
    RoundRecord,
    StageRecord,
    TransitionRecord,
)
from fleetledger.simulator.scenario.loading import scenario_to_toml
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.shown_scenes import SCENES_FILE, ShownScenes
from tests.simulator.fake_pixels import fake_scenes

MACHINE = {"processor": "x86_64, a machine of dreams", "cores": 8, "python": "3.11.7"}


@dataclass(frozen=True)
class Shape:
    """How large and of what kind the run is."""

    stages: int = 5
    classes_per_stage: int = 2
    devices: int = 5
    train_per_class: int = 120
    test_per_class: int = 40
    seeds: tuple[int, ...] = (1, 2, 3)
    beta: float = 0.5
    skill: float = 0.93
    """Accuracy of the first stage."""
    decay: float = 0.03
    """What a task loses with every later stage."""
    joining: int = 0
    offline: float = 0.0
    stored: int = 0
    rounds: int = 0
    detection: bool = False
    looks: bool = False
    """Whether devices look for new tasks in each round, and there is a proxy."""
    pooled: bool = False
    pixels: bool = False
    """Whether pixels have classes, and the run is scored by mIoU."""
    changes: dict[str, object] = field(default_factory=dict)
    """Fields of the scenario."""

    @property
    def classes(self) -> int:
        return self.stages * self.classes_per_stage


@dataclass(frozen=True)
class FakeSeed:
    plan: FleetPlan
    train_labels: np.ndarray
    records: tuple[StageRecord, ...]
    answers: AnyAnswers
    scenes: ShownScenes | None = None

    @property
    def counts(self) -> PlanCounts:
        return PlanCounts.of(self.plan, self.train_labels)

    @property
    def metrics(self) -> SeedMetrics:
        return measure_seed(self.records, self.answers, self.counts)


def fake_scenario(shape: Shape) -> Scenario:
    content: dict[str, object] = {
        "title": "A fleet learns shapes, two at a time",
        "description": "Five devices with skewed data; nothing of it happened.",
        "seeds": shape.seeds,
        "stages": {"count": shape.stages},
        "devices": {
            "count": shape.devices,
            "partition": {"rule": "dirichlet", "beta": shape.beta},
            "groups": {"rule": "redrawn", "joining": shape.joining} if shape.joining else {},
        },
        "detection": {"mode": "baseline" if shape.detection else "off"},
    }
    return Scenario.model_validate(content | shape.changes)


def fake_seed(shape: Shape, seed: int) -> FakeSeed:
    random = np.random.default_rng((seed, shape.stages, shape.devices))
    order = random.permutation(shape.classes).reshape(shape.stages, -1)
    train_labels = np.repeat(np.arange(shape.classes), shape.train_per_class)
    plan = _plan(shape, seed, order, train_labels, random)
    answers: AnyAnswers = _answers(shape, order, random)
    counts = PlanCounts.of(plan, train_labels)
    scores = answers.task_scores().accuracy_seen()
    scenes = None
    if shape.pixels:
        stage_of_class = plan.stages_of_classes()
        answers, scenes = fake_scenes(stage_of_class, plan.class_names, shape.stages, random)
        scores = [answers.scores(stage.number).all for stage in plan.stages]
    records = tuple(
        _record(shape, plan, stage, counts, float(scores[stage.number - 1]), random)
        for stage in plan.stages
    )
    return FakeSeed(plan, train_labels, records, answers, scenes)


def fake_results(shape: Shape | None = None) -> RunResults:
    shape = shape or Shape()
    seeds = {seed: fake_seed(shape, seed).metrics for seed in shape.seeds}
    return summarise(fake_scenario(shape), MACHINE, seeds)


def write_fake_run(folder: Path, shape: Shape | None = None) -> RunResults:
    """Write what the runner writes before the report; return the results."""
    shape = shape or Shape()
    folder.mkdir(parents=True, exist_ok=True)
    metrics = {}
    for seed in shape.seeds:
        fake = fake_seed(shape, seed)
        metrics[seed] = fake.metrics
        home = folder / f"seed-{seed}"
        home.mkdir(exist_ok=True)
        lines = "".join(record.model_dump_json() + "\n" for record in fake.records)
        (home / "stages.jsonl").write_text(lines, encoding="utf-8")
        fake.answers.save(home / "predictions.npz")
        if fake.scenes is not None:
            fake.scenes.save(home / SCENES_FILE)
    results = summarise(fake_scenario(shape), MACHINE, metrics)
    (folder / "scenario.toml").write_text(scenario_to_toml(results.scenario), encoding="utf-8")
    return results


def class_name(label: int) -> ClassName:
    return ClassName(f"shape {label:02d}")


def _plan(shape, seed, order, train_labels, random) -> FleetPlan:
    stages = []
    for number, classes in enumerate(order, 1):
        present = shape.devices + shape.joining * (number - 1)
        groups = _groups(shape, number, present, random)
        learning = [k for k in range(present) if groups[k] != "old"]
        parts: list[list[np.ndarray]] = [[] for _ in range(present)]
        for label in classes:
            own = random.permutation(np.flatnonzero(train_labels == label))
            shares = random.dirichlet(np.full(len(learning), shape.beta))
            cuts = np.round(np.cumsum(shares)[:-1] * len(own)).astype(int)
            for k, part in zip(learning, np.split(own, cuts), strict=True):
                parts[k].append(part)
        devices = {
            DeviceId(f"device-{k + 1}"): DeviceStage(
                indices=np.sort(np.concatenate([*parts[k], np.empty(0, np.int64)])).astype(
                    np.int64
                ),
                group=groups[k],
                online=bool(random.random() >= shape.offline),
            )
            for k in range(present)
        }
        stages.append(StagePlan(number, tuple(int(label) for label in classes), devices))
    names = tuple(class_name(label) for label in range(shape.classes))
    return FleetPlan(seed, names, tuple(stages))


def _groups(shape, number, present, random) -> list[str]:
    if number == 1 or not shape.joining:
        return ["new"] * present
    before = present - shape.joining
    drawn = random.random(before) < 0.7
    return ["new" if new else "old" for new in drawn] + ["joined"] * shape.joining


def _answers(shape, order, random) -> Answers:
    """Older tasks are worse; wrong answers favour the newest classes."""
    labels = random.permutation(np.repeat(np.arange(shape.classes), shape.test_per_class))
    stage_of_class = np.empty(shape.classes, np.int64)
    for number, classes in enumerate(order, 1):
        stage_of_class[classes] = number
    hard = random.uniform(-0.08, 0.04, shape.classes)
    predictions = np.full((shape.stages, len(labels)), -1, np.int32)
    for stage in range(1, shape.stages + 1):
        seen = np.flatnonzero(stage_of_class <= stage)
        weight = stage_of_class[seen].astype(float) ** 2
        task = stage_of_class[labels]
        asked = np.flatnonzero(task <= stage)
        skill = shape.skill + hard[labels[asked]] - shape.decay * (stage - task[asked])
        skill -= 0.01 * (stage - 1)
        wrong = random.choice(seen, len(asked), p=weight / weight.sum())
        right = random.random(len(asked)) < skill
        predictions[stage - 1, asked] = np.where(right, labels[asked], wrong)
    return Answers(labels, predictions, stage_of_class)


def _record(shape, plan, stage, counts, accuracy, random) -> StageRecord:
    devices = {
        device: _device(shape, stage.number, share, random)
        for device, share in stage.devices.items()
    }
    seconds = {
        "features": 4.0 / stage.number,
        "statistics": 0.9 + 0.1 * random.random(),
        "intake": 0.4,
        "solve": 0.2 * stage.number,
        "export": 0.3,
        "evaluation": 0.15 * stage.number,
    }
    return StageRecord(
        stage=stage.number,
        class_names=plan.names(stage.classes),
        opened_by="operator",
        version=stage.number,
        model_classes=plan.names(plan.seen(stage.number)),
        aggregate=Digest.of(f"aggregate {plan.seed} {stage.number}".encode()),
        head=Digest.of(f"head {plan.seed} {stage.number}".encode()),
        manifest=Digest.of(f"manifest {plan.seed} {stage.number}".encode()),
        fleet_seconds=60.0 + 5 * random.random(),
        seconds=seconds | {"total": sum(seconds.values()) - seconds["evaluation"] + 0.5},
        peak_memory_mib=300 + 20 * stage.number,
        devices=devices,
        transitions=_transitions(shape, stage, counts, random),
        rounds=_rounds(shape, len(devices), accuracy, random),
        novelty_checks=_looks(shape, stage),
        inference=_inference() if shape.pixels else None,
        proxy=_proxy(shape, stage),
        pooled_accuracy=accuracy + 0.002 if shape.pooled else None,
        contributions=sum(device.counted_samples > 0 for device in devices.values()),
        notes=("A device came late; its data were counted in this stage.",)
        if stage.number == 2
        else (),
    )


def _device(shape, stage, share, random) -> DeviceRecord:
    arrived, online = len(share.indices), share.online
    counted = arrived if online else 0
    return DeviceRecord(
        group=share.group,
        online=online,
        bytes_up=int(30_000 + 900 * counted + random.integers(0, 5_000)) if online else 0,
        bytes_down=int(400_000 / stage + 20_000 + random.integers(0, 9_000)) if online else 0,
        compute_seconds=0.004 * counted * float(random.uniform(0.8, 1.2)),
        arrived_samples=arrived,
        counted_samples=counted,
        stored_samples=min(shape.stored, arrived * stage),
        answered_seconds=float(random.uniform(2, 50)) if online else None,
    )


def _transitions(shape, stage, counts, random) -> tuple[TransitionRecord, ...]:
    if not shape.detection or stage.number == 1:
        return ()
    found = []
    for device, share in stage.devices.items():
        is_new = len(share.indices) > 0
        if share.online and random.random() < (0.8 if is_new else 0.1):
            found.append(
                TransitionRecord(
                    device=device,
                    why="entropy",
                    seconds=float(random.uniform(1, 20)),
                    is_new=is_new,
                    images=int(random.integers(1, 5)) * 50,
                )
            )
    return tuple(found)


def _looks(shape, stage) -> tuple[NoveltyCheckRecord, ...]:
    """Device 1 notices at once, 2 late, 3 never, and 4 is alarmed in every last round."""
    if not shape.looks:
        return ()
    noticed = {1: (1,), 2: (2,), 3: (), 4: (1, shape.rounds)}
    return tuple(
        NoveltyCheckRecord(
            device=device,
            round=number,
            entropy=0.5 + 1 / number,
            images=10,
            transition=number in noticed.get(int(device.rpartition("-")[2]), ()),
        )
        for number in range(1, shape.rounds + 1)
        for device, share in stage.devices.items()
        if share.online
    )


def _inference() -> InferenceRecord:
    return InferenceRecord(
        scenes=10, seconds=0.25, provider="CPUExecutionProvider", threads=2, batch=8
    )


def _proxy(shape, stage) -> ProxyRecord | None:
    if not shape.looks:
        return None
    return ProxyRecord(
        gradient_bytes=3_000 * stage.number,
        weight_bytes=1_000_000,
        scored=shape.rounds,
        model_bytes=250_000 * shape.rounds,
    )


def _rounds(shape, devices, accuracy, random) -> tuple[RoundRecord, ...]:
    return tuple(
        RoundRecord(
            number=number,
            asked=devices,
            counted=devices - int(random.integers(0, 2)),
            seconds=10.0,
            accuracy=accuracy * (1 - 0.5 * 0.6 ** (number - 1)),
            client_drift=0.3 / number + 0.02 * random.random(),
            loss=2.0 / number,
            steps=40 if shape.pixels else None,
            training_seconds=3.0 if shape.pixels else None,
            fleet_seconds=30.0 * number,
        )
        for number in range(1, shape.rounds + 1)
    )
