"""A method's own settings, checked before anything slow begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from fleetledger.device_agent.kinds import SCENES
from fleetledger.learning.networks.registry import base_of
from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import (
    descriptor,
    statistics_coordinator,
    takes_no_robust_mean,
    training_coordinator,
    waits_for_all,
)
from fleetledger.methods.training.robust import refuse_hidden
from fleetledger.methods.training.sides import AnyTrainingAssignment, TrainingCoordinator
from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.simulator.datasets.loading import names_of
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.plan.plans import PLANS
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.sections import MethodSettings
from fleetledger.simulator.scenario.trainer import (
    JOINT,
    Trainer,
    trainer_of,
    trains_on_features,
    trains_on_pictures,
)

IMAGES = "images"

_WITHOUT = "let it do without: old_model = 'random' in its settings"

FIELD, FIRST = "method.settings", "method.first_stage.settings"
_ANY_WIDTH = 1
"""The backbone is not known yet; its width is checked when the fleet starts."""
_ANY_PICTURE, _ANY_FEATURES = (3, 32, 32), (64,)
"""Of a size that every network takes; that of the data set is checked when the fleet starts."""

Settings = Mapping[str, Any]


def check_method(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` unless the method exists, takes its settings, and can be measured."""
    method, first = scenario.method, scenario.method.first_stage
    try:
        trainer = trainer_of(scenario)
        check_segmenting(source, scenario)
        if first is not None:
            _check_order(source, scenario)
            training = _training(first.name, _ANY_PICTURE)
            before = _check_settings(source, FIRST, training, first.settings)
            check_proxy(source, scenario, first.name, before)
            check_adapters(source, scenario, before)
        if trainer is not None and first is None:
            _check_sight(source, scenario, trainer.method)
            shape = _ANY_FEATURES if trains_on_features(scenario) else _ANY_PICTURE
            training = _training(trainer.method, shape)
            settings = _check_settings(source, FIELD, training, method.settings)
            check_proxy(source, scenario, trainer.method, settings)
            check_adapters(source, scenario, settings)
            check_sharing(source, scenario, trainer.method, training(method.settings))
        else:
            settings = _check_settings(source, FIELD, _statistics(method.name), method.settings)
            _check_policy(source, scenario)
    except MethodError as error:
        raise ScenarioError(f"{source}: method.name: {error}") from error
    if scenario.evaluation.pooled_reference and not hasattr(settings, "ridge_value"):
        raise ScenarioError(
            f"{source}: evaluation.pooled_reference: {method.name!r} solves no ridge regression "
            "that could be repeated in one place; leave it out"
        )
    _check_parts(source, scenario)
    _check_plan(source, scenario, trainer)
    if scenario.method.on_features is not None and (trainer is None or first is not None):
        raise ScenarioError(
            f"{source}: method.on_features: {str(scenario.method.on_features).lower()} goes with a "
            f"method that trains in every stage, and not with {method.name!r} here; leave it out"
        )
    if trainer is not None:
        _check_training(source, scenario)
    _check_pace(source, scenario, None if trainer is None else trainer.method)


def _check_pace(source: str, scenario: Scenario, method: str | None) -> None:
    """Raise `ScenarioError` unless there are rounds whose devices may be slow, or not waited for.

    `method` is the one that trains; None where none does.
    """
    rounds, slowest = scenario.rounds, scenario.devices.slowest
    if method is None or scenario.method.name == JOINT:
        asked = {
            "devices.slowest": slowest > 1,
            "rounds.asynchronous": bool(rounds.asynchronous),
            "rounds.robust": bool(rounds.robust),
            "devices.poisoned": bool(scenario.devices.poisoned),
        }
        for field in (name for name, is_asked in asked.items() if is_asked):
            raise ScenarioError(
                f"{source}: {field}: {scenario.method.name!r} trains in no rounds of a fleet; "
                "leave it out, or take a method that does, such as 'rounds'"
            )
    elif rounds.asynchronous is not None and not descriptor(method).asynchronous:
        raise ScenarioError(f"{source}: {waits_for_all(method)}")
    elif rounds.robust is not None and not descriptor(method).averages:
        raise ScenarioError(f"{source}: {takes_no_robust_mean(method)}")
    else:
        _check_noise(source, scenario)


def _check_noise(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` where single answers are measured that noise hides in their sum."""
    try:
        refuse_hidden(scenario.rounds.robust, scenario.method.settings)
    except ValueError as error:
        raise ScenarioError(f"{source}: {error}") from error


def _check_plan(source: str, scenario: Scenario, trainer: Trainer | None) -> None:
    """Raise `ScenarioError` where classes return and a method learns a class in one stage."""
    name = scenario.stages.plan
    if trainer is None or not PLANS[name].repeats or scenario.method.first_stage is not None:
        return
    if descriptor(trainer.method).disjoint:
        raise ScenarioError(
            f"{source}: stages.plan: {name!r} beside method.name {trainer.method!r}, which learns "
            "a class in one stage, and this plan lets classes return; take plan 'classes', or "
            "another method"
        )


def _check_parts(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` where a method does not tell the models that are to be compared."""
    trainer = trainer_of(scenario)
    if not scenario.evaluation.ensemble:
        return
    side = None if trainer is None else type(training_coordinator(trainer.method))
    if side is None or side.parts_of is TrainingCoordinator.parts_of:
        raise ScenarioError(
            f"{source}: evaluation.ensemble: true, but {scenario.method.name!r} distils no "
            "ensemble of the devices' models; leave it out, or take 'dcid'"
        )


def settings_of(name: str, given: Settings, *, on_features: bool = False) -> BaseModel:
    """Return the settings of a method with its defaults and presets filled in.

    With `on_features` its network takes features, as some methods' always does.

    Raises `UnknownMethodError` for a method that is none, `MethodError` or `ValidationError` for
    settings that it does not take.
    """
    known = descriptor(name)
    shape = _ANY_FEATURES if on_features or known.on_features else _ANY_PICTURE
    assign = _training(name, shape) if known.trains else _statistics(name)
    settings: BaseModel = assign(given).settings
    return settings


def _check_settings(
    source: str, field: str, assign: Callable[[Settings], Any], given: Settings
) -> BaseModel:
    """Return the checked settings; `assign` gives the assignment of a method."""
    known = cast(type[BaseModel], type(assign({}).settings))
    try:
        known.model_validate(given)
        settings: BaseModel = assign(given).settings
    except ValidationError as error:
        raise ScenarioError(f"{source}: {describe_faults(error, known, field)}") from error
    except MethodError as error:
        raise ScenarioError(f"{source}: {field}: {error}") from error
    return settings


def _statistics(name: str) -> Callable[[Settings], Any]:
    side = statistics_coordinator(name)
    return lambda settings: side.assign(settings, _ANY_WIDTH)


def _training(name: str, shape: tuple[int, ...]) -> Callable[[Settings], Any]:
    side = training_coordinator(name)
    return lambda settings: side.assign(settings, shape)


def _check_sight(source: str, scenario: Scenario, method: str) -> None:
    """Raise `ScenarioError` for pictures where a method trains on features alone."""
    if scenario.method.on_features is False and descriptor(method).on_features:
        raise ScenarioError(
            f"{source}: method.on_features: false, but {method!r} trains on features of a frozen "
            "network alone; leave it out, and name that network in [backbone]"
        )


def _check_policy(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` where devices would refuse what the method has them publish."""
    name, policy = scenario.method.name, scenario.devices.policy
    if "features" in descriptor(name).payload_kinds and not policy.publish_features:
        raise ScenarioError(
            f"{source}: devices.policy.publish_features: false, but {name!r} has devices publish "
            "features; set it to true"
        )


def _check_order(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` unless a method that trains comes before one of statistics."""
    method, first = scenario.method, scenario.method.first_stage
    assert first is not None
    if method.name == JOINT or not descriptor(first.name).freezes_for(descriptor(method.name)):
        raise ScenarioError(
            f"{source}: method.first_stage.name: {first.name!r} before {method.name!r}; give a "
            "method that trains before one of statistics, such as rounds before stsa"
        )


def _check_training(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` for what does not go with a network that the fleet trains."""
    if (scenario.backbone.layers or scenario.backbone.mirror) and not trains_on_features(scenario):
        raise ScenarioError(
            f"{source}: backbone.layers, backbone.mirror: are of a frozen network, and the fleet "
            "trains its own on pictures; leave them out"
        )
    if scenario.detection.mode != "off" and scenario.method.first_stage is None:
        raise ScenarioError(
            f"{source}: detection.mode: {scenario.detection.mode!r} looks at features of a frozen "
            "network, and the fleet trains its own; set it to off"
        )


def check_proxy(source: str, scenario: Scenario, method: str, settings: BaseModel) -> None:
    """Raise `ScenarioError` where a proxy is needed that nobody runs, or that is sent nothing."""
    if not (descriptor(method).proxy and getattr(settings, "has_proxy", False)):
        return
    if not scenario.devices.policy.publish_gradients:
        raise ScenarioError(
            f"{source}: devices.policy.publish_gradients: false, but {method!r} has devices send "
            f"gradients to a proxy; set it to true, or {_WITHOUT}"
        )


def check_sharing(
    source: str, scenario: Scenario, method: str, assignment: AnyTrainingAssignment
) -> None:
    """Raise `ScenarioError` where devices would refuse to share images, or public ones lack."""
    known, public = descriptor(method), scenario.method.public_images
    asks = [name for name in assignment.opening_phases if known.kind_of(name) == IMAGES]
    if asks and not scenario.devices.policy.publish_images:
        raise ScenarioError(
            f"{source}: devices.policy.publish_images: false, but {method!r} has devices share "
            "images with the whole fleet; set it to true, as their owners would have to, or let "
            "the method distil on others: method.settings.shared_set = 'public' or 'synthetic'"
        )
    wanted = assignment.needs_shared
    if wanted and public is None:
        raise ScenarioError(
            f"{source}: method.public_images: missing, but {method!r} with these settings "
            "distils on public images; give an .npz file with an array 'images'"
        )
    if public is not None and not wanted:
        raise ScenarioError(
            f"{source}: method.public_images: {public!r}, but {method!r} with these settings "
            "uses no public images; leave it out"
        )


def check_segmenting(source: str, scenario: Scenario) -> None:
    """Raise `ScenarioError` unless the method and the data set agree about masks.

    Raises `UnknownMethodError` for a method that is none.
    """
    method = scenario.method
    segments = (
        method.first_stage is None and method.name != JOINT and descriptor(method.name).segments
    )
    if scenario.data.known.kind.masked and not segments:
        raise ScenarioError(
            f"{source}: data.set: {scenario.data.set!r} has pictures with masks, and "
            f"{method.name!r} gives a picture one class; take a method that gives every pixel one "
            "in all stages, or a data set without masks"
        )
    if segments and not scenario.data.known.kind.masked:
        raise ScenarioError(
            f"{source}: data.set: {scenario.data.set!r}, but {method.name!r} learns a class for "
            f"every pixel from masks; give one of {', '.join(names_of(SCENES))}"
        )
    if scenario.stages.scenes != "overlapped" and not scenario.data.known.kind.masked:
        raise ScenarioError(
            f"{source}: stages.scenes: {scenario.stages.scenes!r}, but {scenario.data.set!r} "
            "has no masks; leave it out"
        )
    if method.trunk is not None and not segments:
        raise ScenarioError(
            f"{source}: method.trunk: {method.trunk!r}, but {method.name!r} trains no network that "
            "gives every pixel a class; leave it out"
        )
    _check_first_weights(source, method, segments=segments)


def _check_first_weights(source: str, method: MethodSettings, *, segments: bool) -> None:
    """Raise `ScenarioError` where weights of a first stage have no place, or lack."""
    given = method.first_weights
    if given is None and segments and method.settings.get("base") == "central":
        raise ScenarioError(
            f"{source}: method.first_weights: missing, but with method.settings.base 'central' "
            "they are the first stage's model; give a file of them, or leave base out"
        )
    if given is None:
        return
    if not segments:
        raise ScenarioError(
            f"{source}: method.first_weights: {given!r}, but {method.name!r} trains no network "
            "that gives every pixel a class; leave it out"
        )
    if method.trunk is not None:
        raise ScenarioError(
            f"{source}: method.first_weights: {given!r} beside a trunk, which they hold; leave "
            "method.trunk out"
        )


def check_adapters(source: str, scenario: Scenario, settings: BaseModel) -> None:
    """Raise `ScenarioError` unless `[backbone]` names what nobody trains, where there is such.

    `settings` are those of the method that trains.
    """
    backbone, name = scenario.backbone, getattr(settings, "network", None)
    if not trains_on_pictures(scenario):
        return
    base = None if name is None else base_of(name)
    if base is None:
        if backbone.network != "pixels":
            raise ScenarioError(
                f"{source}: backbone.network: {backbone.network!r}, but the fleet trains its "
                "network from the first weights on; leave the section out (backbone.size may "
                "stay), or let a network be trained on its features: method.on_features = true"
            )
        return
    if scenario.method.name == JOINT:
        raise ScenarioError(
            f"{source}: method.settings.network: {name!r}, of which adapters alone are trained, "
            f"and {JOINT!r} trains a whole network; take another network"
        )
    if backbone.network != "torchvision" or backbone.name != base:
        raise ScenarioError(
            f"{source}: backbone.network: {backbone.network!r}, but of {name!r} adapters alone are "
            f"trained, and the rest is torchvision's; give network = 'torchvision', "
            f"name = {base!r} and its weights"
        )
