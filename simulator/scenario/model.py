"""A scenario: everything that decides a run, as one checked model; `docs/scenarios.md` shows it.

What depends on the images (how many classes there are, who owns them) is checked when the plan is
made.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.core.rules import PrivacyRules
from fleetledger.device_agent.kinds import PICTURES
from fleetledger.device_agent.settings import AgentDetectionSettings
from fleetledger.methods.registry import descriptor
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.cohorts import LEAST_MEMBERS
from fleetledger.schemas.message import is_absent
from fleetledger.simulator.datasets.loading import DATA_SETS, DataSettings
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan import orders, partitions, plans
from fleetledger.simulator.scenario import sections
from fleetledger.simulator.scenario.backbone import BackboneSettings
from fleetledger.simulator.scenario.rollout import RolloutSettings

_WITHOUT_FLEET = "joint"
_SAID_BY_ROWS = ("order", "classes", "first", "setting", "lists")
"""Fields of `[stages]` that rows say."""


class Scenario(Strict):
    """One TOML file. Raises `ValidationError` that names field, value and what is allowed."""

    title: str = Field(min_length=1)
    """One line for tables and plots."""
    description: str = ""
    """What the run shows, from which paper it is, and how it differs from it."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(1,), min_length=1)
    """One run of the fleet each; means and deviations are reported."""
    data: DataSettings = DataSettings()
    stages: sections.StageSettings = sections.StageSettings()
    devices: sections.DeviceSettings = sections.DeviceSettings()
    rounds: sections.RoundSettings = sections.RoundSettings()
    method: sections.MethodSettings = sections.MethodSettings()
    backbone: BackboneSettings = BackboneSettings()
    detection: AgentDetectionSettings = AgentDetectionSettings(mode="off")
    """`[detection]`: whether devices look for new classes by entropy (docs/detection.md); off where
    the section is left out, as the agent's settings say where it is given."""
    engine: sections.EngineSettings = sections.EngineSettings()
    evaluation: sections.EvaluationSettings = sections.EvaluationSettings()
    privacy: PrivacyRules | None = Field(default=None, exclude_if=is_absent)
    """`[privacy]`: as in the coordinator's settings."""
    published: tuple[sections.PublishedCurve, ...] = ()
    rollout: RolloutSettings | None = Field(default=None, exclude_if=is_absent)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        twice = [seed for seed, times in Counter(self.seeds).items() if times > 1]
        if twice:
            raise ValueError(f"seeds: {twice[0]} stands twice; a seed gives the same run again")
        order, rule = self.stages.order, self.devices.partition.rule
        if orders.ORDERS[order].of_cifar_100 and not self.data.known.of_cifar_100:
            raise ValueError(
                f"stages.order: {order!r} with the data set {self.data.set!r}; it is an order of "
                "CIFAR-100's classes, so take 'seeded' or 'as-is'"
            )
        if partitions.PARTITIONS[rule].deal is None and not self.data.known.owners:
            others = [name for name, each in DATA_SETS.items() if each.owners]
            raise ValueError(
                f"devices.partition.rule: {rule!r} with the data set {self.data.set!r}, whose "
                f"images have no owners; take another rule, or one of {', '.join(others)}"
            )
        _check_masks(self)
        _check_cohorts(self)
        _check_stages(self.stages)
        _check_plan(self)
        _check_hues(self)
        _check_absences(self)
        _check_participation(self)
        _check_workers(self)
        _check_poison(self)
        _check_slowness(self)
        _check_ensemble(self)
        _check_dealing(self)
        _check_answers(self)
        check_rollout(self)
        return self


def _check_masks(scenario: Scenario) -> None:
    """Check that pictures with several classes are dealt by their classes; others have one side."""
    rule, size, name = (
        scenario.devices.partition.rule,
        scenario.backbone.size,
        scenario.data.set,
    )
    if scenario.data.known.kind.masked and not partitions.PARTITIONS[rule].of_several:
        raise ValueError(
            f"devices.partition.rule: {rule!r} with the data set {name!r}, whose pictures have "
            "several classes; set it to 'class-share'"
        )
    if not scenario.data.known.kind.masked and isinstance(size, tuple):
        raise ValueError(
            f"backbone.size: {list(size)} with the data set {name!r}; height and width are for "
            "pictures with masks, so give one side"
        )


def _check_cohorts(scenario: Scenario) -> None:
    """Check that there are devices enough for a masked cohort."""
    devices, privacy = scenario.devices.count, scenario.privacy
    if privacy is not None and privacy.masks and devices < privacy.least:
        raise ValueError(
            f"privacy.least: {privacy.least} with {count_of(devices, 'device')}, which so make no "
            f"masked cohort; give {LEAST_MEMBERS} to {devices}, or more devices"
        )


def _check_stages(stages: sections.StageSettings) -> None:
    plan, fields = plans.PLANS[stages.plan], type(stages).model_fields
    try:
        plan.check(stages.options)
    except PlanError as error:
        raise ValueError(str(error)) from error
    if plan.of_file and stages.file is None:
        raise ValueError(
            f"stages.file: missing; plan {stages.plan!r} is read from one, like plan.csv"
        )
    if stages.file is not None and not plan.of_file:
        raise ValueError(
            f"stages.file: {stages.file!r} beside plan {stages.plan!r}; leave it out, or set plan "
            "to 'rows'"
        )
    for name in _SAID_BY_ROWS if not plan.deals else ():
        value = getattr(stages, name)
        if value != fields[name].default:
            raise ValueError(
                f"stages.{name}: {value!r} beside plan {stages.plan!r}, whose rows say which "
                "samples come when; leave it out"
            )
    if plan.repeats and stages.by_reports:
        raise ValueError(
            f"stages.opened_by: 'reports' beside plan {stages.plan!r}; devices report classes that "
            "are new, and none that return: set it to 'schedule'"
        )


def _check_plan(scenario: Scenario) -> None:
    """Check that a plan by rows meets samples of one class, and that nothing else deals them."""
    name, devices = scenario.stages.plan, scenario.devices
    if scenario.data.known.kind.masked:
        asked: dict[str, object] = {"stages.plan": name} if name != "classes" else {}
        asked |= {"devices.test": devices.test} if devices.test != "common" else {}
        for field, value in asked.items():
            raise ValueError(
                f"{field}: {value!r} with the data set {scenario.data.set!r}, whose pictures have "
                "several classes; leave it out"
            )
    if plans.PLANS[name].deals:
        return
    usual = sections.DeviceSettings()
    for field in ("partition", "groups"):
        if getattr(devices, field) != getattr(usual, field):
            raise ValueError(
                f"devices.{field}: given beside stages.plan {name!r}, whose rows say who gets "
                "what; leave it out"
            )


def _check_hues(scenario: Scenario) -> None:
    """Check that hues are turned of pictures in colour."""
    asked = {"data.test_hue": scenario.data.test_hue, "devices.hue": scenario.devices.hue}
    for field, most in asked.items():
        if most and (scenario.data.known.kind.masked or not scenario.data.known.coloured):
            raise ValueError(
                f"{field}: {most} with the data set {scenario.data.set!r}; hues are turned of "
                "pictures in colour with one class each, so leave it out, or take another set"
            )


def _check_dealing(scenario: Scenario) -> None:
    seeds, stages = scenario.devices.partition.seeds, scenario.stages.total
    if seeds and len(seeds) != stages:
        raise ValueError(
            f"devices.partition.seeds: {len(seeds)} for {count_of(stages, 'stage')}; give one for "
            "each, or none"
        )


def _check_answers(scenario: Scenario) -> None:
    """Check that devices are asked how many answers are right where they are asked that."""
    if not scenario.evaluation.on_devices:
        return
    if scenario.engine.kind != "mqtt":
        raise ValueError(
            f"evaluation.on_devices: is for programs, and engine.kind is {scenario.engine.kind!r}; "
            "set that to 'mqtt' or leave it out"
        )
    if scenario.data.known.kind.masked:
        raise ValueError(
            f"evaluation.on_devices: true with the data set {scenario.data.set!r}, whose pictures "
            "have several classes; leave it out"
        )


def _check_absences(scenario: Scenario) -> None:
    devices, stages = scenario.devices, scenario.stages.total
    everybody = devices.count + devices.groups.joining * (stages - 1)
    for position, absence in enumerate(devices.absences):
        field = f"devices.absences.{position}"
        if absence.device > everybody:
            raise ValueError(
                f"{field}.device: {absence.device} of {count_of(everybody, 'device')}; "
                f"give 1 to {everybody}, or a larger devices.count"
            )
        for name, stage in (("joins", absence.joins), ("leaves", absence.leaves or 1)):
            if stage > stages:
                raise ValueError(
                    f"{field}.{name}: {stage} is after the last stage; "
                    f"give at most {stages}, or leave it out"
                )
    for stage in range(1, stages + 1):
        away = sum(not absence.present(stage) for absence in devices.absences)
        if away >= devices.count + devices.groups.joining * (stage - 1):
            raise ValueError(f"devices.absences: nobody is there in stage {stage}; let one stay")


def asked_of_time(scenario: Scenario) -> dict[str, object]:
    """Return what makes agents act by themselves, in time: values by field."""
    engine, usual, rollout = scenario.engine, type(scenario.engine)(), scenario.rollout
    asked: dict[str, tuple[bool, object]] = {
        "engine.latency_ms": (engine.latency_ms != usual.latency_ms, engine.latency_ms),
        "devices.stragglers": (scenario.devices.stragglers > 0, scenario.devices.stragglers),
        "devices.slowest": (scenario.devices.slowest > 1, scenario.devices.slowest),
        "rounds.asynchronous": (
            scenario.rounds.asynchronous is not None,
            scenario.rounds.asynchronous and scenario.rounds.asynchronous.combine,
        ),
        "privacy.masks": (bool(scenario.privacy and scenario.privacy.masks), True),
        "stages.opened_by": (
            scenario.stages.opened_by != "schedule",
            scenario.stages.opened_by,
        ),
        "detection.mode": (scenario.detection.mode != "off", scenario.detection.mode),
        "rollout.candidate.kind": (rollout is not None, rollout and rollout.candidate.kind),
    }
    return {field: value for field, (is_asked, value) in asked.items() if is_asked}


def _beside_light(scenario: Scenario) -> dict[str, object]:
    """Return what keeps devices from being told to count and to train: values by field."""
    kind = scenario.engine.kind
    return ({"engine.kind": kind} if kind == "mqtt" else {}) | asked_of_time(scenario)


def _check_workers(scenario: Scenario) -> None:
    engine = scenario.engine
    if not engine.workers and engine.kind != "ray":
        return
    beside = _beside_light(scenario)
    if not engine.worker_gpus:
        beside |= (
            {"engine.training": engine.training} if engine.training not in (None, "loop") else {}
        )
        beside |= {"engine.device": engine.device} if engine.device == "cuda" else {}
    field = f"engine.workers: {engine.workers}" if engine.kind != "ray" else "engine.kind: 'ray'"
    for other, value in beside.items():
        raise ValueError(
            f"{field} beside {other} {value!r}; workers train devices in a 'loop' on the CPU: "
            "leave one of them out"
        )


def _check_poison(scenario: Scenario) -> None:
    """Check that those who poison rounds are told to train, and by nothing else."""
    poisoned = scenario.devices.poisoned
    for other, value in _beside_light(scenario).items() if poisoned is not None else ():
        raise ValueError(
            f"devices.poisoned beside {other} {value!r}, whose devices act by themselves as agents "
            "do; leave one of them out"
        )


def _check_slowness(scenario: Scenario) -> None:
    """Check that devices are slow where time is simulated."""
    slowest = scenario.devices.slowest
    if slowest > 1 and scenario.engine.kind == "mqtt":
        raise ValueError(
            f"devices.slowest: {slowest:g} beside engine.kind 'mqtt', whose agents train as fast "
            "as they can; leave it out, or set engine.kind to 'inprocess'"
        )


def _check_ensemble(scenario: Scenario) -> None:
    """Check that answers pass through this process where their models are to be compared."""
    if not scenario.evaluation.ensemble:
        return
    engine = scenario.engine
    beside: dict[str, object] = {"engine.workers": engine.workers} if engine.workers else {}
    beside |= {"engine.kind": engine.kind} if engine.kind != "inprocess" else {}
    beside |= _beside_light(scenario)
    for field, value in beside.items():
        raise ValueError(
            f"evaluation.ensemble: true beside {field} {value!r}; models are compared where "
            "devices train in this process alone: leave one of them out"
        )


def _check_participation(scenario: Scenario) -> None:
    devices, share = scenario.devices.count, scenario.rounds.participation
    if round(share * devices) < 1:
        raise ValueError(
            f"rounds.participation: {share} of {count_of(devices, 'device')} is nobody; "
            f"give at least {1 / devices:.2g}"
        )


def check_rollout(scenario: Scenario) -> None:
    """Check that there is a fleet in memory that can hold pictures to compare on.

    Raises `ValueError` that says `field: value; way out`.
    """
    if scenario.rollout is None:
        return
    engine, name = scenario.engine, scenario.data.set
    if engine.kind != "inprocess":
        raise ValueError(
            f"rollout: beside engine.kind {engine.kind!r}; rollouts take days, which pass in no "
            "time with 'inprocess' alone"
        )
    if scenario.method.name == _WITHOUT_FLEET:
        raise ValueError(
            f"rollout: beside method.name {_WITHOUT_FLEET!r}, which has no devices; take a method "
            "of a fleet"
        )
    if scenario.data.known.kind is not PICTURES:
        raise ValueError(
            f"rollout: with the data set {name!r}; candidates are made for pictures of one class "
            "each, so take another set"
        )
    if scenario.rollout.candidate.kind == "adapted" and descriptor(scenario.method.name).trains:
        raise ValueError(
            f"rollout.candidate.kind: 'adapted' beside method.name {scenario.method.name!r}, which "
            "trains a network in rounds itself; an adapter goes on top of a solved head, such as "
            "stsa's"
        )
