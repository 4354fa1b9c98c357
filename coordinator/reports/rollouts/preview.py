"""Preview of a rollout: the number of its devices, and whether its gates can pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from fleetledger.coordinator.core.phrases import count_of, some, span
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.rollouts.lookup import active_rollout, known_devices
from fleetledger.coordinator.reports.rollouts.rollout_waits import preview_waits
from fleetledger.coordinator.reports.rollouts.sentences import size_of
from fleetledger.coordinator.topics.rollouts.membership import Membership, members_of
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.runtime.command_report import Column, Report
from fleetledger.runtime.strict import Strict

_HOUR_NS = 3600 * 10**9
_NAMED = 3


class PlannedGroup(Strict):
    """A group, as far as one can tell before it opens."""

    number: Annotated[int, Column("group")]
    size: Annotated[str, Column("size")]
    """As it was asked for: `1 device`, `5 %`."""
    devices: Annotated[int, Column("devices")]
    """That would be in it, those of the groups before it not among them."""
    in_all: Annotated[int, Column("in all")]
    """With those before it."""
    images: Annotated[int, Column("held-out images")]
    """Held-out images that these measured a model on last, with those before it."""
    named: tuple[str, ...]
    """Its devices, where they are few."""
    shadow: Annotated[bool, Column("measured before", {False: "no", True: "yes"}.get)]
    """Measured beside the active model before it is run."""


class RolloutPreview(Report):
    """What `rollout plan` shows."""

    lines_field: ClassVar[str | None] = "groups"
    titles: ClassVar[Mapping[str, str]] = {"groups": "Groups"}
    rollout: int
    """The number that it has, or would have."""
    planned: bool
    """Whether it is an entry of the ledger now."""
    version: int
    former: int | None
    """What it goes back to."""
    sentences: tuple[str, ...]
    """What will happen."""
    warnings: tuple[str, ...]
    """What may keep it from passing."""
    groups: tuple[PlannedGroup, ...]
    plan: RolloutPlan
    answer: str = ""
    """What the coordinator said to it."""
    entries: tuple[int, ...] = ()
    """Indices of the entries of the ledger that planning made."""

    def above(self) -> Iterator[str]:
        """Return what will happen, and what may keep it from passing."""
        yield from self.sentences
        yield from (f"Careful: {warning}." for warning in self.warnings)

    def below(self) -> Iterator[str]:
        """Return what the coordinator said."""
        yield self.answer or "This would be planned; nothing was recorded."


def preview(
    ledger: LedgerReader,
    version: int,
    plan: RolloutPlan,
    online: frozenset[str] | None,
    now_ns: int,
    *,
    unsigned: bool = False,
) -> RolloutPreview:
    """Return what a rollout of a version would do; raise `CommandError` where there is none.

    `online` are devices that are there now; None where nobody knows. `unsigned` where a release key
    that is not here has yet to sign each group.
    """
    state = state_of(ledger)
    models = state.models
    if version not in models.by_version or models.name_of_state(version) == "solved":
        raise CommandError(
            f"version: {version} is not a model; `fleetledger model list` shows the versions"
        )
    number, former = state.rollouts.next_number, models.desired_of_all
    classes = 0 if former is None else len(models.by_version[former].made.class_names)
    who = members_of(f"rollout-{number}", plan, {}, known_devices(state), classes)
    groups = tuple(_groups(plan, who, _held_out(ledger)))
    found = RolloutPreview(
        rollout=number,
        planned=False,
        version=version,
        former=former,
        sentences=(),
        warnings=(),
        groups=groups,
        plan=plan,
    )
    warned = (
        *_of_membership(who),
        *_of_few_devices(found, classes),
        *_of_images(found),
        *_of_absence(who, online),
        *_of_others(state),
    )
    return found.model_copy(
        update={
            "sentences": tuple(_sentences(found, now_ns, unsigned=unsigned)),
            "warnings": tuple(warned),
        }
    )


def _groups(
    plan: RolloutPlan, who: Membership, held_out: Mapping[str, int]
) -> Iterator[PlannedGroup]:
    reached = 0
    for number, size in enumerate(plan.groups, 1):
        names = who.of(number)
        reached += sum(held_out.get(name, 0) for name in names)
        yield PlannedGroup(
            number=number,
            size=size_of(size),
            devices=len(names),
            in_all=who.up_to(number),
            images=reached,
            named=tuple(names) if len(names) <= _NAMED else (),
            shadow=plan.shadow == "all" or (plan.shadow == "first" and number == 1),
        )


def _sentences(found: RolloutPreview, now_ns: int, *, unsigned: bool) -> Iterator[str]:
    plan, first = found.plan, found.groups[0]
    of = f" with {' and '.join(map(str, plan.tags))}" if plan.tags else ""
    total = count_of(found.groups[-1].in_all)
    instead = "" if found.former is None else f" in place of model {found.former}"
    yield (
        f"Model {found.version} goes to {total}{of}{instead}, in "
        f"{count_of(len(plan.groups), 'group')}: "
        + ", ".join(f"{group.in_all:,}" for group in found.groups)
        + "."
    )
    named = f" ({some(first.named)})" if first.named else ""
    begin = f"Group 1 is {count_of(first.devices)}{named}"
    if first.shadow:
        begin += ", where it is measured beside the active model before any device runs it"
    yield f"{begin}."
    sizes = [group.devices for group in found.groups]
    yield preview_waits(plan, sizes, now_ns, unsigned=unsigned)
    if unsigned or plan.approve == "release-key":
        yield (
            "Each group waits for a signature before any of its devices may install it: "
            f"`fleetledger rollout approve {found.rollout} --key FILE`."
        )
    deadline = span(round(plan.deadline_hours * _HOUR_NS))
    yield f"A group that has not reported within {deadline} pauses the rollout."
    if plan.on_fail == "pause":
        yield "A gate that fails pauses it, and a person decides."
    elif found.former is None:
        yield "A gate that fails ends it; there is no former model to go back to."
    else:
        yield f"A gate that fails takes every device back to model {found.former} by itself."
    if plan.approve == "operator":
        yield "Each group waits until an operator approves it."
    elif plan.approve == "release-key":
        yield "Each group waits for the signature of a release key."
    if plan.hours is not None:
        begins, ends = plan.hours.begins, plan.hours.ends
        yield (
            f"Devices switch between {begins // 60:02}:{begins % 60:02} and "
            f"{ends // 60:02}:{ends % 60:02} by their own clocks."
        )


def _of_membership(who: Membership) -> Iterator[str]:
    if not who.group_of:
        yield "no device is concerned: none that is admitted has these tags, or no other version"
    pinned = [name for name, stage in who.apart.items() if stage == "pinned"]
    if pinned:
        yield f"pinned to another version, and left out: {some(pinned)}"


def _of_few_devices(found: RolloutPreview, classes: int) -> Iterator[str]:
    """Say where devices are too few to tell, which gates that leaves open, and what follows."""
    gates, total = found.plan.gates, found.groups[-1].in_all
    needed = gates.needed_by_gate(classes)
    most = max(needed.values(), default=0)
    groups = found.groups[1:] or found.groups
    short = [one for one in groups if one.devices and one.in_all < most]
    if found.former is None or not short:
        return
    takes = ", ".join(f"{gate} takes {count}" for gate, count in needed.items())
    first = short[0]
    told = (
        f"group {first.number} is {count_of(first.in_all)} with those before it, and {most} are "
        f"needed to tell by themselves whether the model is worse ({takes}): "
    )
    if total < most:
        open_ones = " and ".join(gate for gate, count in needed.items() if total < count)
        told += (
            f"it is about {count_of(total)} in all, so the verdict on {open_ones} is inconclusive "
            "in every group, however well the model does; "
        )
    if first.number == 1:
        told += "it passes all the same, since the first group only tries whether the model runs"
    elif found.plan.on_unsure == "back":
        told += "it would go back there by itself, as the plan's on_unsure says"
    else:
        told += "it would pause there, and you decide"
    larger = "" if total < most else "larger groups (--groups) tell; "
    yield (
        f"{told}; {larger}where you know how many images show the same thing, --gate alike=NUMBER "
        "lets images speak; --gate min_images=0 asks for nothing"
    )


def _of_images(found: RolloutPreview) -> Iterator[str]:
    gates = found.plan.gates
    if not gates.min_images or found.former is None:
        return
    if gates.retention is None and gates.no_class_lost is None:
        return
    for group in found.groups[1:]:
        if group.devices and group.images < gates.min_images:
            yield (
                f"group {group.number} has about {count_of(group.images, 'held-out image')}, and "
                f"the gates of accuracy ask for {gates.min_images:,}: it would pause there. Give "
                "devices more images with labels, or say --gate min_images=NUMBER"
            )
            return


def _of_absence(who: Membership, online: frozenset[str] | None) -> Iterator[str]:
    if online is None:
        return
    away = sorted(name for name, group in who.group_of.items() if group and name not in online)
    if away:
        yield f"away now, and not waited for once the group has been open for long: {some(away)}"


def _of_others(state: State) -> Iterator[str]:
    found = active_rollout(state)
    if found is not None:
        yield f"rollout {found[0]} of model {found[1]} is open; starting this one takes its place"


def _held_out(ledger: LedgerReader) -> dict[str, int]:
    """Return how many held-out images each device measured a model on last."""
    state = state_of(ledger)
    last = {name: state.models.of(name).measured for name in state.devices.admitted}
    return {
        name: one.total for name, one in last.items() if one is not None and one.mean_iou is None
    }
