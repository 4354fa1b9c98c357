"""The public face: what applications and experiments import; everything else is private.

    import fleetledger as fl

| name | for |
| --- | --- |
| `active_model` | the model that runs on this device |
| `Agent` | the agent of a device, inside a program of one's own |
| `Coordinator` | a fleet: its reports, its actions, its ledger as data |
| `Split` | a data set for the simulator, from arrays, tables, folders, other libraries' data sets |
| `network`, `dataset`, `partition`, `order`, `plan` | decorators: a program adds its own |
| `method`, `methods` | a decorator likewise, and classes with which a method of one's own begins |
| `metric`, `reporter` | decorators likewise, of numbers and of callbacks by name |
| `simulate` | a fleet on this machine, from a scenario to a `Run` |
| `Run`, `compare` | a finished run, and runs side by side: matrices, tables, frames, figures |
| `callbacks` | who is told of rounds and stages: TensorBoard, MLflow, W&B and one's own |

The rooms lie at the top of the repository and are imported as `fleetledger.<room>`: the links
beside this file lead to them. To import this costs nothing; a room is imported when it is used.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from fleetledger import methods
    from fleetledger.coordinator.client import Coordinator
    from fleetledger.device_agent.apps.embedded.agent import Agent
    from fleetledger.device_agent.models.inference.running_model import RunningModel
    from fleetledger.simulator import callbacks
    from fleetledger.simulator.datasets.own_split import OwnSplit as Split
    from fleetledger.simulator.metrics.metric import Better, Unit
    from fleetledger.simulator.report.comparison import compare
    from fleetledger.simulator.report.run import Run
    from fleetledger.simulator.run.simulate import simulate

__all__ = [
    "Agent",
    "Coordinator",
    "Run",
    "Split",
    "active_model",
    "callbacks",
    "compare",
    "dataset",
    "method",
    "methods",
    "metric",
    "network",
    "order",
    "partition",
    "plan",
    "reporter",
    "simulate",
]

_LAZY: dict[str, str] = {
    "Agent": "fleetledger.device_agent.apps.embedded.agent:Agent",
    "Coordinator": "fleetledger.coordinator.client:Coordinator",
    "Run": "fleetledger.simulator.report.run:Run",
    "Split": "fleetledger.simulator.datasets.own_split:OwnSplit",
    "callbacks": "fleetledger.simulator.callbacks",
    "compare": "fleetledger.simulator.report.comparison:compare",
    "methods": "fleetledger.methods",
    "simulate": "fleetledger.simulator.run.simulate:simulate",
}
"""Public names that are defined in a room: `module:attribute`, or a module, imported when used."""

Own = TypeVar("Own", bound=Callable[..., Any])


def active_model(home: str | os.PathLike[str] | None = None) -> RunningModel:
    """Return the model that runs on this device; it answers with whichever that is by now.

    `home` is the agent's folder; left out, `$FLEETLEDGER_AGENT`, else `agent-home`. Raises
    `fleetledger.device_agent.errors.NoModelError` where none is active, and what
    `RunningModel.open` raises.
    """
    from fleetledger.device_agent.models.inference.running_model import RunningModel  # noqa: PLC0415 - lazy

    return RunningModel.open(home)


def network(name: str) -> Callable[[Own], Own]:
    """Register a network of one's own: `network = "name"` in a method's settings names it.

    It decorates a function of the shape of one sample, such as (c, h, w), that returns the body of
    the network, whose output are a sample's features (n, d); the head grows on top of it.
    """
    return _decorator("fleetledger.learning.networks.registry", "NETWORKS", name)


def dataset(name: str) -> Callable[[Own], Own]:
    """Register a data set of one's own: `set = "name"` in `[data]` of a scenario names it.

    It decorates a function `(root, seed, **options)` that returns a `Split`: `root` and `options`
    are those of `[data]`.
    """
    return _decorator("fleetledger.simulator.datasets.loading", "DATA_SETS", name)


def partition(name: str) -> Callable[[Own], Own]:
    """Register a rule by which samples are dealt: `[devices.partition]` names it as `rule`.

    It decorates a function `(labels, devices, random)` of the labels (N,) of a stage's samples, the
    number of devices and a `numpy.random.Generator`, that returns one array of positions for each
    device.
    """
    return _decorator("fleetledger.simulator.plan.partitions", "PARTITIONS", name)


def order(name: str) -> Callable[[Own], Own]:
    """Register an order in which classes come: `[stages]` names it as `order`.

    It decorates a function `(classes, random)` of their number and a `numpy.random.Generator`, that
    returns the labels from 0 in the order of coming, each once.
    """
    return _decorator("fleetledger.simulator.plan.orders", "ORDERS", name)


def plan(name: str) -> Callable[[Own], Own]:
    """Register a plan of one's own: `[stages]` names it as `plan`, with its `options`.

    It decorates a function `(data, stages, devices, random)` of the training samples, the numbers
    of stages and devices and a `numpy.random.Generator`, that returns rows: stage and device from
    1, sample from 0, and if wanted label and domain. Options come by name.
    """
    return _decorator("fleetledger.simulator.plan.plans", "PLANS", name)


def method(name: str) -> Callable[[Own], Own]:
    """Register a method of one's own: `name = "name"` in `[method]` names it.

    It decorates a subclass of `methods.Rounds` or another base of `fleetledger.methods`.
    """
    return _decorator("fleetledger.methods.registry", "METHODS", name)


def metric(
    name: str, *, title: str = "", unit: Unit = "number", better: Better = "higher"
) -> Callable[[Own], Own]:
    """Register a number that every run measures; it stands in results, reports and comparisons.

    `unit` says how people read it: a `share` or `points` are from 0 to 1 and shown in percent. The
    `title` is the name with spaces if it is left out.

    It decorates a function `(answers, plan)` of one seed that returns a number, a mapping of
    numbers by name, or None where it is not known. `answers` has `labels` (N,) of the test samples,
    `predictions` (T, N) after each stage, -1 without an answer, and `stage_of_class` (C,); `plan`
    has `devices`, `class_names` and `samples` (T, K, C), the training samples by stage, device and
    class. Its docstring is the number's meaning in reports.
    """
    from fleetledger.simulator.metrics.headline import METRICS, own_metric  # noqa: PLC0415 - lazy

    def decorated(value: Own) -> Own:
        made = own_metric(name, value, title=title, unit=unit, better=better)
        METRICS.add(name, made, getattr(value, "__module__", None))
        return value

    return decorated


def reporter(name: str) -> Callable[[Own], Own]:
    """Register a callback by name: `simulate --report-to NAME` and `callbacks=["name"]` take it.

    It decorates a function of the run's folder, which may not be there yet, that returns a
    callback: a function of a `fl.callbacks.RunEvent`, or a `fl.callbacks.Reporter`.
    """
    return _decorator("fleetledger.simulator.callbacks", "REPORTERS", name)


def _decorator(module: str, table: str, name: str) -> Callable[[Own], Own]:
    """Return what adds a value to a table; it raises `RegistryError` for a name that is ours."""
    frame = inspect.currentframe()
    asking = frame and frame.f_back and frame.f_back.f_back  # behind the decorator of the face
    program = None if asking is None else asking.f_globals.get("__name__")

    def decorated(value: Own) -> Own:
        getattr(importlib.import_module(module), table).add(name, value, program)
        return value

    return decorated


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    found: Any = importlib.import_module(module)
    found = globals()[name] = getattr(found, attribute) if attribute else found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
