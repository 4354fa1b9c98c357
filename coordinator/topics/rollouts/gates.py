"""The gates of rollouts, in the order in which people read them: one value each.

A gate is added here and nowhere else; its limit is a field of `GatePlan`.
docs/adding-a-gate.md shows it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.topics.rollouts import accuracy_gates, cost_gates
from fleetledger.coordinator.topics.rollouts.evidence import Evidence
from fleetledger.coordinator.topics.rollouts.gate import Gate, GateResult
from fleetledger.coordinator.topics.rollouts.plan import GatePlan
from fleetledger.coordinator.topics.rollouts.scope import Outcome, Scope, exact
from fleetledger.runtime.count_words import agree

_HOLDING: tuple[Outcome, ...] = ("pass", "inconclusive", "fail")


def entropy(limits: GatePlan, evidence: Evidence, scope: Scope) -> GateResult:
    """Return whether the mean entropy shifted on more than half of the group, up or down."""
    assert limits.entropy_nats is not None
    most, answers = exact(limits.entropy_nats), evidence.answers
    images, short = answers.images, answers.images < limits.entropy_images
    if short:
        return GateResult(
            outcome="inconclusive",
            limit=limits.entropy_nats,
            counts=(images, len(answers.surer)),
            too_little=True,
            text=f"{images:,} of {count_of(limits.entropy_images, 'image')} "
            f"{agree(images, 'is', 'are')} there to compare "
            f"entropies.",
        )
    side = max(
        (answers.less_sure, answers.surer),
        key=lambda one: (_HOLDING.index(one.outcome(most, scope.members)), one.median),
    )
    outcome, alone, why = side.says(most, scope.members)
    shift = float(side.median if side is answers.less_sure else -side.median)
    return GateResult(
        outcome=outcome,
        value=round(abs(shift), 6),
        limit=limits.entropy_nats,
        counts=(images, len(side)),
        alone=alone,
        text=f"The mean entropy shifted by {shift:+.3f} nats on {count_of(len(side))} (median), "
        f"over {count_of(images, 'image')}; {limits.entropy_nats:.4g} may be." + why,
    )


def agreement(limits: GatePlan, evidence: Evidence, _: Scope) -> GateResult | None:
    """Return whether both models mostly give unlabelled images the same class.

    It never fails, for a better model disagrees, too; below the limit a person should look. Each
    device counts once, and a pass stands without any one of them. None where no device has such
    images.
    """
    answers = evidence.answers
    agreed, images, differ = answers.agreed, answers.unlabelled, answers.disagreeing
    if not images:
        return None
    assert limits.agreement is not None
    short = images < limits.min_images
    low = 1 - differ.worst_mean < exact(limits.agreement)
    share = round(float(1 - differ.mean), 6)
    text = (
        f"Both models gave {agreed:,} of {count_of(images, 'unlabelled image')} the same class, "
        f"{share:.1%} on average over {count_of(len(differ))}; a person should look "
        f"below {limits.agreement:.4g}."
    )
    return GateResult(
        outcome="inconclusive" if short or low else "pass",
        value=share,
        limit=limits.agreement,
        counts=(agreed, images),
        too_little=short,
        text=text + (f" They are fewer than {limits.min_images:,}." if short else ""),
    )


def log_words(value: float) -> str:
    """Return log e to one digit, with a real minus sign."""
    return f"{round(value, 1) + 0.0:.1f}".replace("-", "\N{MINUS SIGN}")


def _log_of(limit: float | None, times: int = 1) -> str:
    return f"log e from {math.log((limit or 1) * times):.1f} on"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0):g} %"


def _each_class(plan: GatePlan, _: str, classes: int) -> str:
    limit, needed = plan.no_class_lost, plan.devices_needed(classes)
    times = f" ({limit:g} x {classes})" if classes else ""
    few = f"; of fewer than {count_of(needed)} it is inconclusive" if needed else ""
    return f"each old class; {_log_of(limit, max(1, classes))} fails{times}{few}"


def _pairs(found: GateResult) -> str:
    if found.value is None:
        return ""
    of = f"{found.of_class}: " if found.of_class else ""
    return f"{of}{found.counts[0]:,} : {found.counts[1]:,}, log e {log_words(found.value)}"


def _share(found: GateResult) -> str:
    share = "" if found.value is None else f", {100 * found.value:.1f} %"
    return f"{found.counts[0]:,} of {found.counts[1]:,}{share}"


def _nats(found: GateResult) -> str:
    images = found.counts[0]
    return (
        count_of(images, "image")
        if found.value is None
        else f"{found.value:.3f} nats over {images:,}"
    )


def _times(found: GateResult) -> str:
    return "" if found.value is None else f"{found.value:.2f} times"


def _devices(found: GateResult) -> str:
    return f"{found.counts[0]:,} of {count_of(found.counts[1])}"


_LOOKS_WORSE = "{model} looks worse, but devices do not show it by themselves"

GATES = (
    Gate(
        "health",
        ("failed_devices", "failed_share"),
        cost_gates.health,
        looks_at="devices on which it failed",
        fails_when="more than one, and more than chance explains where 2 % do",
        rule=lambda plan, *_: (
            f"failed: {count_of(plan.failed_devices)} may, and {_percent(plan.failed_share)} of all"
        ),
        short=_devices,
        words="{model} fails on devices",
    ),
    Gate(
        "better",
        ("better",),
        accuracy_gates.better,
        looks_at="images of all classes that the active model knows; of [an "
        "adapter](rounds.md#an-adapter-on-top-of-the-exact-head), on devices without part in it",
        fails_when="never: where evidence of devices that the candidate is better stays below "
        "what is asked for, it is inconclusive; off by default, 100 for adapters",
        rule=lambda plan, *_: f"all old classes together; {_log_of(plan.better)} passes",
        short=_pairs,
        words="{model} is not shown to be better than {before}",
        logarithm=True,
    ),
    Gate(
        "no_class_lost",
        ("no_class_lost",),
        accuracy_gates.no_class_lost,
        looks_at="images of each class that the active model knows",
        fails_when="evidence of devices that the candidate is worse on it reaches 200 times the "
        "number of classes",
        rule=_each_class,
        short=_pairs,
        words="with {model}, devices forget {of_class}",
        unsure=_LOOKS_WORSE,
        needed=True,
        logarithm=True,
    ),
    Gate(
        "retention",
        ("retention",),
        accuracy_gates.retention,
        looks_at="images of all classes that the active model knows",
        fails_when="evidence of devices that the candidate is worse reaches 200",
        rule=lambda plan, *_: f"all old classes together; {_log_of(plan.retention)} fails",
        short=_pairs,
        words="with {model}, devices forget what they knew",
        unsure=_LOOKS_WORSE,
        needed=True,
        logarithm=True,
    ),
    Gate(
        "gain",
        ("min_new", "gain"),
        accuracy_gates.gain,
        looks_at="images of new classes",
        fails_when="evidence of devices that fewer than asked for are right reaches 100; off by "
        "default",
        rule=lambda plan, *_: f"new classes; right at least {_percent(plan.min_new)}",
        short=_share,
        words="{model} has too few images of new classes right",
        needed=True,
        zero_is_off=True,
    ),
    Gate(
        "entropy",
        ("entropy_nats", "entropy_images"),
        entropy,
        looks_at="how sure the models are, on the same images",
        fails_when="the mean of a device shifts by more than 0.1 nats on more than half of the "
        "group, of 500 images or more",
        rule=lambda plan, *_: (
            f"median shift at most {plan.entropy_nats:g} nats, over "
            f"{count_of(plan.entropy_images, 'image')}"
        ),
        short=_nats,
        words="{model} is not as sure of its answers as {before}",
    ),
    Gate(
        "agreement",
        ("agreement",),
        agreement,
        looks_at="images without labels, each device counting once",
        fails_when="never: below 85 % it is inconclusive, and a person looks",
        rule=lambda plan, *_: (
            f"unlabelled images; below {_percent(plan.agreement)} is inconclusive"
        ),
        short=_share,
        words="{model} and {before} answer too many images differently",
    ),
    Gate(
        "latency",
        ("latency", "latency_seconds"),
        cost_gates.latency,
        looks_at="p95 of each device",
        fails_when="1.25 times the active model's, and 5 ms more, on more than half of the group",
        rule=lambda plan, before, _: f"median p95 at most {plan.latency:g} x {before}",
        short=_times,
        words="{model} is slower than {before}",
    ),
    Gate(
        "memory",
        ("memory",),
        cost_gates.memory,
        looks_at="resident bytes of each device",
        fails_when="1.25 times the active model's on more than half of the group",
        rule=lambda plan, before, _: f"median at most {plan.memory:g} x {before}",
        short=_times,
        words="{model} takes more memory than {before}",
    ),
    Gate(
        "thermal",
        ("throttled_devices", "throttled_share"),
        cost_gates.thermal,
        looks_at="devices that began to slow down since the switch",
        fails_when="more than one, and more than chance explains where 2 % do",
        rule=lambda plan, *_: (
            f"new throttling: {count_of(plan.throttled_devices or 0)} may, and "
            f"{_percent(plan.throttled_share)} of all"
        ),
        short=_devices,
        words="devices get too hot with {model}",
    ),
)
_BY_NAME = {gate.name: gate for gate in GATES}

if TYPE_CHECKING:
    GateName: TypeAlias = str
else:
    GateName = Literal[tuple(_BY_NAME)]


class GateFinding(GateResult):
    """What one gate says, with the figures that it goes by."""

    gate: GateName


def gate_of(name: str) -> Gate:
    """Return the gate of a finding."""
    return _BY_NAME[name]


def ask(gate: Gate, plan: GatePlan, evidence: Evidence, scope: Scope) -> GateFinding | None:
    """Return what a gate says of evidence. None where it is off, or no device can measure it."""
    found = gate.judge(plan, evidence, scope) if gate.is_on(plan) else None
    return None if found is None else GateFinding(gate=gate.name, **dict(found))
