"""Who is let into the fleet, and what the operator says of devices."""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, record, record_for, together
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.devices import entries
from fleetledger.coordinator.topics.devices.choice import chosen
from fleetledger.coordinator.topics.devices.commands import TagDevices
from fleetledger.schemas.cohorts import is_cohort
from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.tags import MAX_TAGS
from fleetledger.schemas.values import DeviceId


def admit(state: State, device: DeviceId) -> Decision:
    """Let a device take part; raise `CommandError` for a name that another program has."""
    if device in (COORDINATOR, PROXY):
        raise CommandError(f"device: {str(device)!r} is the {device}'s own name; rename the device")
    if is_cohort(device):
        raise CommandError(
            f"device: {str(device)!r} is the name of a cohort's sum; rename the device"
        )
    if device in state.devices.admitted:
        return Decision()
    return record(entries.DeviceAdmitted(device=device), actor=OPERATOR)


def retire(state: State, device: DeviceId, reason: str) -> Decision:
    """Take a device out of the fleet; raise `CommandError` for one that is not in it."""
    check_admitted(state, device)
    return record(entries.DeviceRetired(device=device, reason=reason), actor=OPERATOR)


def check_admitted(state: State, device: DeviceId) -> None:
    """Raise `CommandError` unless a device takes part."""
    if device in state.devices.retired:
        raise CommandError(f"device: {str(device)!r} is retired; {way_back(device)}")
    if device not in state.devices.admitted:
        raise CommandError(f"device: {str(device)!r} is not admitted to this fleet")


def not_admitted(state: State, device: DeviceId) -> str:
    """Return what a device is told that does not take part, with the way out."""
    how = "was retired from" if device in state.devices.retired else "is not admitted to"
    return f"device: {str(device)!r} {how} this fleet; {way_back(device)}"


def way_back(device: DeviceId) -> str:
    """Return how a device comes to take part."""
    return f"the operator admits it with `fleetledger coordinator admit {device}`"


def tag(state: State, command: TagDevices) -> tuple[Decision, str]:
    """Put tags on the chosen devices and take others away, and say it in a sentence.

    Raises `CommandError` where nobody is chosen, where nobody has a tag that is to go, and where a
    device would have more than `MAX_TAGS` of the operator's.
    """
    if command.is_open:
        raise CommandError("device: none is named; name devices, or choose some by `--tag`")
    if not command.put and not command.removed:
        raise CommandError("tag: none is given; write NAME=VALUE to put it, NAME- to take it away")
    names = chosen(command, state.devices.tags)
    known = {name: state.devices.admitted[name] for name in names}
    for tag_name in command.removed:
        if tag_name in command.put:
            raise CommandError(f"tag: {str(tag_name)!r} is to be put and taken away; say one")
        if not any(tag_name in device.tags for device in known.values()):
            raise CommandError(f"tag: none of the devices has {str(tag_name)!r}")
    changed = []
    for name, device in known.items():
        after = device.retagged(command.put, command.removed)
        if len(after) > MAX_TAGS:
            raise CommandError(
                f"tag: {name} would have more than {MAX_TAGS} of the operator's; take some away"
            )
        if after != device.operators_tags:
            changed.append(name)
    if not changed:
        return Decision(), "nothing changes: the devices have these tags already"
    decision = together(
        record(
            entries.DeviceTagged(
                devices=tuple(changed[start : start + entries.MAX_NAMED]),
                tags=command.put,
                removed=command.removed,
            ),
            actor=OPERATOR,
        )
        for start in range(0, len(changed), entries.MAX_NAMED)
    )
    return decision, f"tags of {len(changed)} device{'s' if len(changed) > 1 else ''} are changed"


def note_problem(device: DeviceId, problem: Problem) -> Decision:
    """Record what a device, or the proxy, says that its owner should mend."""
    return record_for(device, entries.DeviceProblem(about=problem.about, text=problem.text))
