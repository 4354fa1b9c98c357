"""What node_exporter's textfile collector reads of an agent: the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from fleetledger.device_agent.home.health.inferences import BOUNDS, Inferences
from fleetledger.schemas.health import DeviceHealth

_PREFIX = "fleetledger_agent"


@dataclass(frozen=True)
class AgentNumbers:
    """What is told of an agent."""

    health: DeviceHealth
    inferences: Inferences
    outbox: int
    """Messages that wait for a receipt."""
    version: int | None
    """Of the model that runs; None where none does."""


def write_textfile(path: Path, numbers: AgentNumbers) -> None:
    """Replace the file in one step, readable by everybody; raise `OSError`.

    The collector reads what ends in `.prom`, so never the half-written one.
    """
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(exposed(numbers), encoding="utf-8")
    temporary.chmod(0o644)
    temporary.replace(path)


def exposed(numbers: AgentNumbers) -> str:
    """Return the numbers in the text format of Prometheus."""
    return "".join(f"{line}\n" for line in _lines(numbers))


def _lines(numbers: AgentNumbers) -> Iterator[str]:
    health, inferences = numbers.health, numbers.inferences
    text = "Samples that the active model was asked about since the agent began."
    yield from _family("inferences_total", "counter", text, {"": inferences.count})
    yield from _histogram(inferences)
    if health.resident_bytes is not None:
        text = "Memory of the agent and of the processes that it started."
        yield from _family("resident_bytes", "gauge", text, {"": health.resident_bytes})
    text = "Messages that wait for a receipt."
    yield from _family("outbox_messages", "gauge", text, {"": numbers.outbox})
    if numbers.version is not None:
        labels = _labels(version=str(numbers.version), provider=health.provider or "")
        text = "The model that runs, and the execution provider it runs on."
        yield from _family("model_info", "gauge", text, {labels: 1})
    if health.power_mode is not None:
        text = "The power mode in which times are taken."
        labels = _labels(mode=health.power_mode)
        yield from _family("power_mode_info", "gauge", text, {labels: 1})
    if health.temperatures:
        text = "Of each thermal zone."
        zones = {_labels(zone=zone.zone): zone.celsius for zone in health.temperatures}
        yield from _family("temperature_celsius", "gauge", text, zones)
    if health.throttled is not None:
        text = "How often the machine slowed itself down since it was switched on."
        yield from _family("throttled_total", "counter", text, {"": health.throttled})


def _histogram(inferences: Inferences) -> Iterator[str]:
    name = f"{_PREFIX}_inference_seconds"
    yield f"# HELP {name} Time that the active model took for one sample."
    yield f"# TYPE {name} histogram"
    bounds = [*(repr(bound) for bound in BOUNDS), "+Inf"]
    for bound, count in zip(bounds, accumulate(inferences.buckets), strict=True):
        yield f'{name}_bucket{{le="{bound}"}} {count}'
    yield f"{name}_sum {inferences.seconds!r}"
    yield f"{name}_count {inferences.count}"


def _family(name: str, kind: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {text}"
    yield f"# TYPE {_PREFIX}_{name} {kind}"
    for labels, value in values.items():
        yield f"{_PREFIX}_{name}{labels} {value!r}"


def _labels(**labels: str) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
