"""The table of plans: a value for each, which `[stages]` names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from fleetledger.runtime.errors import shorten
from fleetledger.runtime.registry import Registry, RegistryError
from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.runtime.strict import Strict
from fleetledger.simulator.datasets.labels import Labels
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.rows import PlanRows, StageDeal, rows_of

Options = Mapping[str, Any]
Request = Any
"""A `PlanRequest`; its module imports the settings, which name the plans of this table."""


@dataclass(frozen=True)
class Plan:
    """A plan by the name that `[stages]` gives it."""

    deal: Callable[[Request, Any, Labels], Sequence[StageDeal]]
    """Returns the stages from the options and the labels of all training samples, of which those
    below 0 are left out. Raises `PlanError` or `PartitionError`."""
    check: Callable[[Options], Any]
    """Returns the options as `deal` takes them; raises `PlanError`."""
    deals: bool = True
    """Whether samples are dealt by `[devices.partition]` to those that `[devices.groups]` names;
    else the plan says itself who gets what."""
    repeats: bool = True
    """Whether a class may come with several stages."""
    of_file: bool = False
    """Whether `stages.file` says it."""


def plan_of(name: str, value: object) -> Plan:
    """Return what a distribution or a program registers as a plan; raise `RegistryError`."""
    if isinstance(value, Plan):
        return value
    if not callable(value):
        raise RegistryError(
            f"plan: {name!r} is {shorten(value)}; give a function of data, stages, devices and "
            "random that returns rows"
        )
    rows = value

    def check(given: Options) -> Options:
        known = list(inspect.signature(rows).parameters.values())[4:]
        names = [item.name for item in known]
        open_ended = any(item.kind is item.VAR_KEYWORD for item in known)
        strange = [each for each in given if each not in names and not open_ended]
        if strange:
            takes = f"one of {', '.join(names)}" if names else "none"
            raise PlanError(f"stages.options.{strange[0]}: plan {name!r} takes {takes}")
        return given

    def deal(request: Request, options: Options, labels: Labels) -> Sequence[StageDeal]:
        del labels  # rows say all
        stages, devices = request.stages.total, request.roster.known(request.stages.total)
        found = rows(request.train, stages, devices, request.random, **options)
        return deal_rows(request, rows_of(found, f"plan {name!r}"), f"plan {name!r}")

    return Plan(deal, check, deals=False)


def options_of(model: type[Strict]) -> Callable[[Options], Strict]:
    """Return what checks options of a plan by their model."""

    def check(given: Options) -> Strict:
        try:
            return model.model_validate(given)
        except ValidationError as error:
            raise PlanError(describe_faults(error, model, "stages.options")) from error

    return check


def deal_rows(request: Request, rows: PlanRows, source: str) -> Sequence[StageDeal]:
    """Return the stages of rows; raise `PlanError` that names `source`."""
    devices = request.roster.known(request.stages.total)
    checked = rows.checked(request.train, request.stages.total, devices, source)
    return checked.deals(request.labels)


PLANS = Registry[Plan]("plan", "fleetledger.plans", plan_of)
"""By name; `plans` fills it, and `[stages]` takes a name once it is here."""
