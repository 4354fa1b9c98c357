"""Status and findings as lines of text, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fleetledger.device_agent.home.status_file import MIB, Status
from fleetledger.device_agent.kinds import KINDS
from fleetledger.runtime.count_words import count_of

SHOWN_PAST = 5
"""Problems that are over, of which a line is shown; `--json` has all."""


def status_lines(status: Status, age: float, *, running: bool) -> Iterator[str]:
    """Yield what `agent status` prints; `age` is that of the status in seconds."""
    state = "running" if running else f"NOT RUNNING, this is how it was {age:.0f} s ago"
    coordinator = "there" if status.coordinator else "away"
    yield f"agent        {status.device} of fleet {status.fleet}: {state}"
    yield f"broker       {'connected' if status.connected else 'away'}, coordinator {coordinator}"
    yield f"wire         {status.wire}"
    yield from _learned(status)
    yield f"outbox       {status.outbox} without a receipt, {status.dead_letters} refused"
    if status.key:
        yield f"key          {status.key}"
    if status.ledger_seen is not None:
        yield (
            f"ledger       proven to this device up to "
            f"{count_of(status.ledger_seen, 'entry', 'entries')}"
        )
    if status.trust:
        yield f"trust        {status.trust}"
    if status.silence:
        yield f"SILENCE      {status.silence}"
    yield f"model        {_model(status)}; last wanted: {status.model_state}"
    yield from (f"LEFT         {reason}" for reason in status.left_providers)
    if status.building:
        yield f"BUILDING     {status.building}"
    yield from _inference(status)
    if status.candidate:
        yield f"candidate    {status.candidate}"
    yield f"memory       {status.resident_mib:.1f} MiB resident"
    up, down = count_of(status.bytes_up, "byte"), count_of(status.bytes_down, "byte")
    yield f"traffic      {up} up, {down} down since the start"
    if status.training:
        yield f"training     {status.training}"
        if status.novelty_check:
            yield f"novelty      {status.novelty_check}"
        cached = f"{status.feature_cache_bytes / MIB:.1f} MiB of cached features"
        yield f"exemplars    {status.exemplars} kept as {status.exemplars_as}; {cached}"
        yield from (
            f"round {item.number:<6} {count_of(item.bytes_up, 'byte')} up, "
            f"{count_of(item.bytes_down, 'byte')} down"
            for item in status.rounds
        )
    if status.gradients:
        yield f"proxy        {count_of(status.gradients, 'set')} of gradients without a receipt"
    yield from _numbers_leave(status)
    if status.samples != "none":
        yield f"detection    {status.detection}"
    if status.waiting_classes:
        yield f"waiting      {_numbers(status.waiting_classes)} (classes unknown to the fleet)"
    yield from _problems(status)


def _numbers_leave(status: Status) -> Iterator[str]:
    """Yield how numbers leave the device, and what does not."""
    if status.masks:
        yield f"masks        {status.masks}"
    if status.policy:
        yield f"policy       {status.policy}"


def _problems(status: Status) -> Iterator[str]:
    """Yield what is wrong and hinders nothing, and what was; `hindrances` has what hinders."""
    yield from (f"refused      {reason}" for reason in status.refusals)
    if status.doing:
        yield f"doing        {status.doing}"
    yield from (f"problem      {item}" for item in status.problems if not item.hinders)
    yield from (f"was          {item}" for item in status.past[:SHOWN_PAST])


def _learned(status: Status) -> Iterator[str]:
    """Yield what became of what lies on the device to learn from."""
    if status.samples == "none":
        yield "samples      none: this device only runs models"
        return
    yield f"stage        {status.stage if status.stage is not None else 'none yet'}"
    what = f"{KINDS[status.samples].noun}s"
    left = f", {status.left_out} left out" if status.left_out else ""
    yield f"{what:<12} {status.images_on_disk} on disk, {status.counted_images} counted{left}"
    yield f"parts        {_numbers(status.parts) or 'none yet'}"


def _inference(status: Status) -> Iterator[str]:
    """Yield how long the model takes, never without how the machine is."""
    if status.inference_p95_seconds is not None:
        milliseconds = 1000 * status.inference_p95_seconds
        told = f"; {status.conditions}" if status.conditions else ""
        yield f"inference    95 % within {milliseconds:.1f} ms for a sample{told}"
    elif status.conditions:
        yield f"machine      {status.conditions}"


def _model(status: Status) -> str:
    if status.active_version is None or status.active_manifest is None:
        return "none runs"
    variant = f" as {status.variant}" if status.variant is not None else ""
    said = f"version {status.active_version} ({status.active_manifest.short}){variant}"
    return f"{said}, {status.provider}"


def _numbers(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items(), key=str))
