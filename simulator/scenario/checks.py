"""What must fit together within a scenario; `simulator.scenario.model` calls these.

Each raises `ValueError` that says `field: value; way out`, the field seen from the section that is
checked. What depends on the images (how many classes there are, who owns them) is checked when the
plan is made.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleetledger.schemas.counted import count_of

if TYPE_CHECKING:
    from fleetledger.simulator.scenario.model import (
        Absence,
        DeviceSettings,
        EngineSettings,
        Scenario,
        StageSettings,
    )

ONLY_WITHOUT_LISTS = ("order", "classes", "count", "first", "setting")
"""Fields of `[stages]` that say what `lists` says too."""
_SAID_BY_SETTING = ("count", "first")
WITH_OWNERS = ("omniglot", "npz", "patterns", "shakespeare", "grammar")
"""Data sets that know who made an image or said a text."""
_SHARED_GPU = 0.5
"""Of a GPU: two that ask for no more can be given the same one."""
_WITHOUT_COLOURS = ("digits", "fashion-mnist", "omniglot", "shakespeare", "grammar")
OF_CIFAR_100 = ("cifar100", "npz")
"""Data sets that can hold the classes of CIFAR-100."""


def check_stages(stages: StageSettings) -> None:
    """Check how classes are dealt to the stages."""
    if stages.lists:
        _check_lists(stages)
        return
    if stages.setting is not None:
        _check_setting(stages, stages.setting)
        return
    if stages.first is not None and stages.count == 1:
        raise ValueError(f"first: {stages.first} beside one stage; leave it out, or set classes")
    if stages.classes is None:
        return
    if stages.count > stages.classes:
        raise ValueError(
            f"count: {stages.count} stages cannot share "
            f"{count_of(stages.classes, 'class', 'classes')}; give at most {stages.classes}, or "
            "more classes"
        )
    if stages.first is not None and stages.first > stages.classes - stages.count + 1:
        raise ValueError(
            f"first: {stages.first} of {count_of(stages.classes, 'class', 'classes')} leaves too "
            f"few for {count_of(stages.count - 1, 'more stage')}; give at most "
            f"{stages.classes - stages.count + 1}"
        )


def _check_lists(stages: StageSettings) -> None:
    fields = type(stages).model_fields
    beside = [n for n in ONLY_WITHOUT_LISTS if getattr(stages, n) != fields[n].default]
    if beside:
        raise ValueError(
            f"lists: given beside {', '.join(beside)}; the lists say it all, so leave out one "
            "or the other"
        )
    for number, names in enumerate(stages.lists, start=1):
        if not names:
            raise ValueError(f"lists: stage {number} has no class; give each at least one")
    twice = [
        name for name, n in Counter(n for names in stages.lists for n in names).items() if n > 1
    ]
    if twice:
        raise ValueError(f"lists: {twice[0]!r} stands twice; a class comes with one stage")


def _check_setting(stages: StageSettings, setting: str) -> None:
    fields = type(stages).model_fields
    beside = [n for n in _SAID_BY_SETTING if getattr(stages, n) != fields[n].default]
    if beside:
        raise ValueError(
            f"setting: {setting!r} beside {' and '.join(beside)}; it says both, so leave out one "
            "or the other"
        )
    if stages.classes is None:
        raise ValueError(
            f"setting: {setting!r} without classes; give the number of classes of all stages, like "
            "20 of Pascal VOC"
        )
    first, step = map(int, setting.split("-"))
    if first > stages.classes:
        raise ValueError(
            f"setting: {setting!r} of {count_of(stages.classes, 'class', 'classes')}; give at most "
            f"{stages.classes} to the first stage"
        )
    left = (stages.classes - first) % step
    if left:
        raise ValueError(
            f"setting: {setting!r} of {count_of(stages.classes, 'class', 'classes')} leaves {left} "
            f"for the last stage; take {count_of(stages.classes - left, 'class', 'classes')}, or "
            "another setting"
        )


def check_absence(absence: Absence) -> None:
    """Check that a device comes before it goes."""
    if absence.leaves is not None and absence.leaves <= absence.joins:
        raise ValueError(
            f"leaves: {absence.leaves} is not after its joining in stage {absence.joins}; "
            f"give at least {absence.joins + 1}"
        )


def check_devices(devices: DeviceSettings) -> None:
    """Check groups and absences that need nothing else."""
    groups = devices.groups
    if groups.joining and groups.rule == "none":
        raise ValueError(
            f"groups.joining: {groups.joining} with rule 'none'; set groups.rule to 'redrawn', or "
            "let single devices join later with absences"
        )
    twice = [n for n, times in Counter(a.device for a in devices.absences).items() if times > 1]
    if twice:
        raise ValueError(f"absences: device {twice[0]} stands twice; give each at most one")


def check_scenario(scenario: Scenario) -> None:
    """Check what spans sections."""
    twice = [seed for seed, times in Counter(scenario.seeds).items() if times > 1]
    if twice:
        raise ValueError(f"seeds: {twice[0]} stands twice; a seed gives the same run again")
    if scenario.stages.order == "icarl" and scenario.data.set not in OF_CIFAR_100:
        raise ValueError(
            f"stages.order: 'icarl' with the data set {scenario.data.set!r}; it is an order of "
            "CIFAR-100's classes, so take 'seeded' or 'as-is'"
        )
    if scenario.devices.partition.rule == "owner" and scenario.data.set not in WITH_OWNERS:
        raise ValueError(
            f"devices.partition.rule: 'owner' with the data set {scenario.data.set!r}, whose "
            f"images have none; take another rule, or one of {', '.join(WITH_OWNERS)}"
        )
    _check_masks(scenario)
    _check_hues(scenario)
    _check_absences(scenario)
    _check_participation(scenario)
    _check_agents(scenario)
    _check_dealing(scenario)
    _check_programs(scenario)


def _check_masks(scenario: Scenario) -> None:
    """Check that pictures with several classes are dealt by their classes; others have one side."""
    rule, size, name = (
        scenario.devices.partition.rule,
        scenario.backbone.size,
        scenario.data.set,
    )
    if scenario.data.with_masks and rule != "class-share":
        raise ValueError(
            f"devices.partition.rule: {rule!r} with the data set {name!r}, whose pictures have "
            "several classes; set it to 'class-share'"
        )
    if not scenario.data.with_masks and isinstance(size, tuple):
        raise ValueError(
            f"backbone.size: {list(size)} with the data set {name!r}; height and width are for "
            "pictures with masks, so give one side"
        )


def _check_hues(scenario: Scenario) -> None:
    """Check that hues are turned of pictures in colour, of which each has one device."""
    asked = {"data.test_hue": scenario.data.test_hue, "devices.hue": scenario.devices.hue}
    for field, most in asked.items():
        if most and (scenario.data.with_masks or scenario.data.set in _WITHOUT_COLOURS):
            raise ValueError(
                f"{field}: {most} with the data set {scenario.data.set!r}; hues are turned of "
                "pictures in colour with one class each, so leave it out, or take another set"
            )
    if scenario.devices.hue and scenario.devices.partition.rule == "class-share":
        raise ValueError(
            f"devices.hue: {scenario.devices.hue} with the rule 'class-share', by which devices "
            "hold the same pictures; take another rule, or leave it out"
        )


def _check_dealing(scenario: Scenario) -> None:
    seeds, stages = scenario.devices.partition.seeds, scenario.stages.total
    if seeds and len(seeds) != stages:
        raise ValueError(
            f"devices.partition.seeds: {len(seeds)} for {count_of(stages, 'stage')}; give one for "
            "each, or none"
        )


def _check_programs(scenario: Scenario) -> None:
    """Check that nothing is asked of programs where there are none."""
    engine = scenario.engine
    asked = {
        "engine.broker": engine.broker != "auto",
        "engine.keys": engine.keys,
        "evaluation.on_devices": scenario.evaluation.on_devices,
    }
    for field, is_asked in asked.items():
        if is_asked and engine.kind != "mqtt":
            raise ValueError(
                f"{field}: is for programs, and engine.kind is {engine.kind!r}; set that to 'mqtt' "
                "or leave it out"
            )
    if scenario.evaluation.on_devices and scenario.data.with_masks:
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


def asked_of_whole_agents(scenario: Scenario) -> dict[str, object]:
    """Return what a scenario asks that light agents leave out: values by field."""
    engine, usual, rollout = scenario.engine, type(scenario.engine)(), scenario.rollout
    asked: dict[str, tuple[bool, object]] = {
        "engine.kind": (engine.kind == "mqtt", engine.kind),
        "engine.latency_ms": (engine.latency_ms != usual.latency_ms, engine.latency_ms),
        "engine.agents_in_memory": (
            engine.agents_in_memory != usual.agents_in_memory,
            engine.agents_in_memory,
        ),
        "devices.stragglers": (scenario.devices.stragglers > 0, scenario.devices.stragglers),
        "stages.opened_by": (
            scenario.stages.opened_by != "schedule",
            scenario.stages.opened_by,
        ),
        "detection.mode": (scenario.detection.mode != "off", scenario.detection.mode),
        "rollout.candidate.kind": (rollout is not None, rollout and rollout.candidate.kind),
    }
    return {field: value for field, (is_asked, value) in asked.items() if is_asked}


def has_light_agents(scenario: Scenario) -> bool:
    """Whether the fleet of a scenario is one of light agents."""
    if scenario.engine.agents == "auto":
        return not asked_of_whole_agents(scenario)
    return scenario.engine.agents == "light"


def _check_agents(scenario: Scenario) -> None:
    """Check that nothing is asked of light agents that they leave out."""
    _check_workers(scenario)
    _check_ensemble(scenario)
    _check_arithmetic(scenario.engine)
    if scenario.engine.agents != "light":
        return
    for field, value in asked_of_whole_agents(scenario).items():
        raise ValueError(
            f"{field}: {value!r} beside engine.agents 'light', which send no messages, see nothing "
            "new by themselves, install no model and are never late; leave one of them out"
        )


def _check_workers(scenario: Scenario) -> None:
    engine = scenario.engine
    _check_cluster(engine)
    if not engine.workers and engine.kind != "ray":
        return
    beside: dict[str, object] = {}
    if not has_light_agents(scenario):
        beside = asked_of_whole_agents(scenario) or {"engine.agents": engine.agents}
    if not engine.worker_gpus:
        beside |= (
            {"engine.training": engine.training} if engine.training not in (None, "loop") else {}
        )
        beside |= {"engine.device": engine.device} if engine.device == "cuda" else {}
    field = f"engine.workers: {engine.workers}" if engine.kind != "ray" else "engine.kind: 'ray'"
    for other, value in beside.items():
        raise ValueError(
            f"{field} beside {other} {value!r}; workers train light agents in a 'loop' on the CPU: "
            "leave one of them out"
        )


def _check_ensemble(scenario: Scenario) -> None:
    """Check that answers pass through this process where their models are to be compared."""
    if not scenario.evaluation.ensemble:
        return
    engine = scenario.engine
    beside: dict[str, object] = {"engine.workers": engine.workers} if engine.workers else {}
    beside |= {"engine.kind": engine.kind} if engine.kind != "inprocess" else {}
    if not has_light_agents(scenario):
        beside |= asked_of_whole_agents(scenario) or {"engine.agents": engine.agents}
    for field, value in beside.items():
        raise ValueError(
            f"evaluation.ensemble: true beside {field} {value!r}; models are compared where light "
            "agents train in this process alone: leave one of them out"
        )


def _check_cluster(engine: EngineSettings) -> None:
    """Check what is said of a cluster of Ray."""
    usual = type(engine)()
    for field in ("address", "worker_cpus", "worker_gpus"):
        value = getattr(engine, field)
        if engine.kind != "ray" and value != getattr(usual, field):
            raise ValueError(
                f"engine.{field}: {value!r} beside engine.kind {engine.kind!r}; it is of a "
                "cluster: set engine.kind to 'ray', or leave it out"
            )
    if 0 < engine.worker_gpus <= _SHARED_GPU:
        raise ValueError(
            f"engine.worker_gpus: {engine.worker_gpus} lets workers share a GPU, whose memory "
            "nobody would divide; give 1, and let devices train at once by engine.training 'stack'"
        )


def _check_arithmetic(engine: EngineSettings) -> None:
    """Refuse what only training in this process knows beside programs that train by themselves."""
    usual = type(engine)()
    for field in ("channels_last", "tf32", "steps"):
        if engine.kind == "mqtt" and getattr(engine, field) != getattr(usual, field):
            raise ValueError(
                f"engine.{field}: {getattr(engine, field)!r} beside engine.kind 'mqtt', whose "
                "agents train by themselves, without; leave it out, or choose 'inprocess'"
            )


def _check_participation(scenario: Scenario) -> None:
    devices, share = scenario.devices.count, scenario.rounds.participation
    if round(share * devices) < 1:
        raise ValueError(
            f"rounds.participation: {share} of {count_of(devices, 'device')} is nobody; "
            f"give at least {1 / devices:.2g}"
        )
