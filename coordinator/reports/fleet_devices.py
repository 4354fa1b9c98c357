"""Devices just now: what the ledger knows of each, with what it said of itself since."""

from __future__ import annotations

from fleetledger.coordinator.core.phrases import natural
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.snapshot import DeviceNow, LiveSnapshot
from fleetledger.coordinator.reports import answers
from fleetledger.coordinator.reports.old_and_new_classes import names_of_newest
from fleetledger.coordinator.topics.contributions import budget
from fleetledger.coordinator.topics.devices.state import Device, DevicesState
from fleetledger.coordinator.topics.rounds import budget as round_budget
from fleetledger.schemas.values import DeviceId


def fleet_devices(
    ledger: LedgerReader, state: State, live: LiveSnapshot | None
) -> tuple[answers.FleetDevice, ...]:
    """Return every admitted device; `live` is that of a coordinator that runs, None without."""
    measured, held = _accuracies(ledger, state), state.contributions.held()
    pinned = state.models.pinned
    found = []
    for name in sorted(state.devices.admitted, key=natural):
        item, said = state.devices.admitted[name], state.models.of(name)
        now, key = None if live is None else live.devices.get(name), state.keys.of(name).text
        able, (parts, samples) = item.capabilities, held.get(name, (0, 0))
        there = _state(item, now, key, served=live is not None)
        heard = state.heard_ns.get(name)
        told = () if now is None else now.told
        found.append(
            answers.FleetDevice(
                name=name,
                state=there,
                last_seen=_last_seen(heard, now),
                online_since=now.since_ns if now is not None and now.online else None,
                away_since=now.since_ns if now is not None and not now.online else None,
                absent_since=_absent_since(item, heard, now, there),
                silent_since=None if key == "revoked" else item.silent_ns,
                admitted_index=item.admitted_index,
                key=key,
                tags={str(tag): str(value) for tag, value in sorted(item.tags.items())},
                pinned=pinned[name].version if name in pinned else None,
                boot=item.boot,
                born_index=item.born_index,
                provider=None if able is None else able.provider,
                agent_version=None if able is None else able.agent_version,
                wire=None if item.born_index is None else item.wire,
                refused_by=item.refused_by,
                outbox=None if now is None else now.outbox,
                desired_version=None if key == "revoked" else state.models.to_run(name),
                active_version=said.active_version,
                model_version=said.model_version,
                model_state=said.model_state or None,
                model_reason=said.model_reason,
                model_index=said.model_index,
                accuracy=measured.get(name),
                health=_health(now),
                contributions=parts,
                samples=samples,
                epsilon=_epsilon(state, name),
                problems=(
                    *troubles(state.devices, name),
                    *(
                        answers.Trouble(
                            about=one.about, text=one.text, since=at, hinders=one.hinders
                        )
                        for one, at in told
                    ),
                ),
                hindered_since=None if now is None else now.hindered_since_ns,
            )
        )
    return tuple(found)


def troubles(devices: DevicesState, sender: DeviceId) -> list[answers.Trouble]:
    """Return what a sender said last in its present run, newest first."""
    known = devices.problems.get(sender, {})
    return [
        answers.Trouble(about=about, text=one.text, index=one.index, since=one.time_ns)
        for about, one in reversed(known.items())
    ]


def _state(item: Device, now: DeviceNow | None, key: str, *, served: bool) -> answers.DeviceState:
    if key == "revoked":
        return "revoked"
    if item.doubled is not None:
        return "doubled"
    if item.refused_by is not None:
        return "too old" if item.wire.highest < item.refused_by.lowest else "too new"
    if now is not None and now.online:
        return "online"
    if item.boot is None and (now is None or now.heard_ns is None):
        return "never seen"
    return "away" if served else "unknown"


def _absent_since(
    item: Device, heard_ns: int | None, now: DeviceNow | None, state: answers.DeviceState
) -> int | None:
    if state == "never seen":
        return item.admitted_ns
    if state != "away":
        return None
    return (None if now is None else now.since_ns) or _last_seen(heard_ns, now)


def _last_seen(heard_ns: int | None, now: DeviceNow | None) -> int | None:
    times = (heard_ns, None if now is None else now.heard_ns)
    return max((time for time in times if time is not None), default=None)


def _health(now: DeviceNow | None) -> answers.HealthNow | None:
    if now is None or now.health is None or now.health_ns is None:
        return None
    said = now.health
    hottest = max(said.temperatures, key=lambda zone: zone.celsius, default=None)
    return answers.HealthNow(
        time=now.health_ns,
        hottest_zone=None if hottest is None else hottest.zone,
        celsius=None if hottest is None else hottest.celsius,
        provider=said.provider,
        power_mode=said.power_mode,
        throttled=said.throttled,
        free_disk_bytes=said.free_disk_bytes,
        resident_bytes=said.resident_bytes,
        memory_limit_bytes=said.memory_limit_bytes,
        inferences=said.inferences,
        inference_p95_seconds=said.inference_p95_seconds,
    )


def _accuracies(ledger: LedgerReader, state: State) -> dict[DeviceId, answers.AccuracyThere]:
    """Return what each device measured last, of all classes and of those that came last."""
    there = {name: state.models.of(name) for name in state.devices.admitted}
    versions = {said.evaluated_version for said in there.values()}
    newest = {
        version: names_of_newest(ledger, version) for version in versions if version is not None
    }
    indices = [said.measured.index for said in there.values() if said.measured is not None]
    results = ledger.values(indices, "evaluation.results")
    found = {}
    for name, said in there.items():
        of, version = said.measured, said.evaluated_version
        if of is None or version is None or not of.total:
            continue
        new = newest[version]
        fresh = [counted for each, counted in results[of.index].items() if each in new]
        right = sum(counted["correct"] for counted in fresh)
        total = sum(counted["total"] for counted in fresh)
        found[name] = answers.AccuracyThere(
            version=version,
            index=of.index,
            all=_count(of.correct, of.total),
            old=_count(of.correct - right, of.total - total),
            new=_count(right, total),
            mean_iou=of.mean_iou,
        )
    return found


def _count(correct: int, total: int) -> answers.RightCount | None:
    return answers.RightCount(correct=correct, total=total) if total else None


def _epsilon(state: State, device: DeviceId) -> float | None:
    """Return what a device's parts, or its answers to rounds, have spent; None without noise."""
    found = round_budget.spent if state.lineages.in_rounds else budget.spent
    epsilon = found(state, device)
    return None if epsilon is None else round(epsilon, 3)
