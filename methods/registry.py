"""Methods by name: their descriptors, and their sides, imported only when they are wanted.

To add a method: a folder beside `stsa`, and a line in `_OWN`; for a method of statistics
docs/methods/adding-a-statistics-method.md goes through it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fleetledger.methods.descriptor import LEARN, Descriptor
from fleetledger.methods.errors import UnknownMethodError
from fleetledger.methods.steps import MethodSteps
from fleetledger.runtime.errors import cut, shorten
from fleetledger.runtime.registry import Registry, RegistryError
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.requirements import Requirement

if TYPE_CHECKING:
    from fleetledger.methods.statistics.sides import (
        AnyStatisticsCoordinator,
        AnyStatisticsDevice,
    )
    from fleetledger.methods.training.sides import AnyTrainingCoordinator, AnyTrainingDevice


@dataclass(frozen=True)
class Method:
    """A method by name: the package with its `DESCRIPTOR` and its modules of both sides."""

    package: str
    steps: type[MethodSteps] | None = None
    """What of it is of somebody's own, under the `name`."""
    name: str = ""

    def descriptor(self) -> Descriptor:
        """Return what it says of itself."""
        found = _imported(self.package).DESCRIPTOR
        assert isinstance(found, Descriptor)
        return found if self.steps is None else self.steps.described(found, self.name)

    def device(self) -> object:
        """Import and return its device side."""
        return _with_steps(_imported(f"{self.package}.device").DEVICE, self)

    def coordinator(self) -> object:
        """Import and return its coordinator side."""
        return _with_steps(_imported(f"{self.package}.coordinator").COORDINATOR, self)


@cache
def _with_steps(side: Any, method: Method) -> object:  # noqa: ANN401 - of any method
    return side if method.steps is None else side.with_steps(method.steps, method.name)


def _taken(name: str, value: object) -> Method:
    """Return what a distribution or a program registers as a method."""
    if isinstance(value, type) and issubclass(value, MethodSteps):
        value.name = name
        return Method(value.package, value, name)
    if isinstance(value, Method):
        return value
    raise RegistryError(
        f"method: {name!r} is {shorten(value)}; give a subclass of fleetledger.methods.Rounds or "
        "another base, or a Method"
    )


_OWN: tuple[str, ...] = (
    "stsa",  # one ridge head from exact sums
    "fedncm",  # a class's mean feature is its row
    "fed3r",  # ridge regression on the backbone's own features
    "fedcof",  # the same with covariances estimated from class means
    "pooled",  # logistic regression on features that devices publish
    "rounds",  # whole networks, averaged round by round
    "fedhaf",  # an adapter and a head on frozen features, averaged round by round
    "lga",  # whole networks that hold on to old classes, with a proxy that picks the old model
    "fbl",  # networks that give pixels a class, balanced against what they forget
    "dcid",  # whole networks: sites learn with a learner of their choice, and distil together
)
METHODS = Registry[Method]("method", "fleetledger.methods", _taken).own(
    {name: Method(f"{__package__}.{name}") for name in _OWN}
)
"""By name; a fleet may name a method once it is here."""


def descriptor(name: str) -> Descriptor:
    """Return a method's descriptor; raise `UnknownMethodError` for a name that is none."""
    return _known(name).descriptor()


def waits_for_all(name: str) -> str:
    """Return why a method takes no asynchronous rounds, and what to do."""
    known = ", ".join(repr(one.name) for one in descriptors() if one.asynchronous)
    return (
        f"rounds.asynchronous: {name!r} needs all answers of a round at once; leave the section "
        f"out, or take a method that averages weights alone: {known}"
    )


def takes_no_robust_mean(name: str) -> str:
    """Return why the answers of a method have no robust mean, and what to do."""
    known = ", ".join(repr(one.name) for one in descriptors() if one.averages)
    return (
        f"rounds.robust: {name!r} does more with answers than to average their numbers; leave the "
        f"section out, or take a method that does no more: {known}"
    )


def descriptors() -> tuple[Descriptor, ...]:
    """Return the descriptors of all methods."""
    return tuple(descriptor(name) for name in METHODS)


def statistics_device(name: str) -> AnyStatisticsDevice:
    """Import and return the device side of a method of statistics."""
    from fleetledger.methods.statistics.sides import StatisticsDevice  # noqa: PLC0415 - NumPy

    found = _known(name).device()
    assert isinstance(found, StatisticsDevice)
    return found


def statistics_coordinator(name: str) -> AnyStatisticsCoordinator:
    """Import and return the coordinator side of a method of statistics."""
    from fleetledger.methods.statistics.sides import StatisticsCoordinator  # noqa: PLC0415 - NumPy

    found = _known(name).coordinator()
    assert isinstance(found, StatisticsCoordinator)
    return found


def training_device(name: str) -> AnyTrainingDevice:
    """Import and return the device side of a method that trains; needs torch."""
    from fleetledger.methods.training.sides import TrainingDevice  # noqa: PLC0415 - few devices train

    found = _known(name).device()
    assert isinstance(found, TrainingDevice)
    return found


def training_coordinator(name: str) -> AnyTrainingCoordinator:
    """Import and return the coordinator side of a method that trains."""
    from fleetledger.methods.training.sides import TrainingCoordinator  # noqa: PLC0415 - as above

    found = _known(name).coordinator()
    assert isinstance(found, TrainingCoordinator)
    return found


def can_learn(
    capabilities: Capabilities, method: str, requires: Iterable[Requirement] = ()
) -> bool:
    """Return whether a device can run the learning phase of a method that `requires` these."""
    if any(each.feature not in capabilities.features for each in requires):
        return False
    return descriptor(method).can_run(LEARN, capabilities.features)


def _known(name: str) -> Method:
    if name not in METHODS:
        raise UnknownMethodError(
            f"method: {name!r} is unknown; the methods are {', '.join(METHODS)}"
        )
    return METHODS[name]


@cache
def _imported(module: str) -> ModuleType:
    """Return a module; asked for with every answer, and `import_module` takes 2 us each time."""
    try:
        return importlib.import_module(module)
    except Exception as error:
        if module.startswith(f"{__package__}."):
            raise
        raise RegistryError(
            f"method: {module} cannot be imported: {type(error).__name__}: "
            f"{cut(str(error), 200)}; mend or uninstall it"
        ) from error
