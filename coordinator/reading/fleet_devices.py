"""Devices just now: what the ledger knows of each, with what it said of itself since."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.snapshot import DeviceNow, LiveSnapshot
from fleetledger.coordinator.reading.answers import (
    AccuracyThere,
    DeviceState,
    FleetDevice,
    HealthNow,
    RightCount,
    Trouble,
)
from fleetledger.coordinator.reading.old_and_new import names_of_newest
from fleetledger.coordinator.reading.rollouts.finding import offers
from fleetledger.coordinator.topics.devices import views as device_views
from fleetledger.coordinator.topics.devices.views import DeviceFacts
from fleetledger.coordinator.topics.models.queries import GoingOut
from fleetledger.schemas.values import DeviceId


def fleet_devices(
    ledger: LedgerReader,
    facts: Sequence[DeviceFacts],
    live: LiveSnapshot | None,
    out: GoingOut,
) -> tuple[FleetDevice, ...]:
    """Return every admitted device; `live` is that of a coordinator that runs, None without."""
    tried = {name: version for version, names in out.canaries.items() for name in names}
    own = tried | offers(ledger) | out.pins
    doubled = {row.device for row in device_views.unsettled(ledger)}
    measured, troubles = _accuracies(ledger, facts), _troubles(ledger)
    tags = device_views.tags(ledger)
    found = []
    for item in facts:
        now = None if live is None else live.devices.get(DeviceId(item.device))
        state = _state(item, now, doubled=item.device in doubled, served=live is not None)
        desired = None if item.key == "revoked" else own.get(item.device, out.desired)
        told = () if now is None else now.told
        found.append(
            FleetDevice(
                name=item.device,
                state=state,
                last_seen=_last_seen(item, now),
                online_since=now.since_ns if now is not None and now.online else None,
                away_since=now.since_ns if now is not None and not now.online else None,
                absent_since=_absent_since(item, now, state),
                silent_since=item.silent_ns,
                admitted_index=item.admitted_index,
                key=item.key,
                tags=dict(tags.get(DeviceId(item.device), {})),
                pinned=out.pins.get(item.device),
                boot=item.boot,
                born_index=item.born_index,
                provider=item.provider,
                agent_version=item.agent_version,
                wire=item.wire,
                refused_by=item.refused_by,
                outbox=None if now is None else now.outbox,
                desired_version=desired,
                active_version=item.active_version,
                model_version=item.model_version,
                model_state=item.model_state,
                model_reason=item.model_reason,
                model_index=item.model_index,
                accuracy=measured.get(item.device),
                health=_health(now),
                contributions=item.held,
                samples=item.samples,
                problems=(
                    *troubles.get(item.device, ()),
                    *(
                        Trouble(about=one.about, text=one.text, since=at, hinders=one.hinders)
                        for one, at in told
                    ),
                ),
                hindered_since=None if now is None else now.hindered_since_ns,
            )
        )
    return tuple(found)


def _state(item: DeviceFacts, now: DeviceNow | None, *, doubled: bool, served: bool) -> DeviceState:
    if item.key == "revoked":
        return "revoked"
    if doubled:
        return "doubled"
    if item.wire is not None and item.refused_by is not None:
        return "too old" if item.wire.highest < item.refused_by.lowest else "too new"
    if now is not None and now.online:
        return "online"
    if item.boot is None and (now is None or now.heard_ns is None):
        return "never seen"
    return "away" if served else "unknown"


def _absent_since(item: DeviceFacts, now: DeviceNow | None, state: DeviceState) -> int | None:
    if state == "never seen":
        return item.last_ns  # of its admission
    if state != "away":
        return None
    return (None if now is None else now.since_ns) or _last_seen(item, now)


def _last_seen(item: DeviceFacts, now: DeviceNow | None) -> int | None:
    heard = None if now is None else now.heard_ns
    in_ledger = item.last_ns if item.last_index != item.admitted_index else None
    return max((time for time in (heard, in_ledger) if time is not None), default=None)


def _health(now: DeviceNow | None) -> HealthNow | None:
    if now is None or now.health is None or now.health_ns is None:
        return None
    said = now.health
    hottest = max(said.temperatures, key=lambda zone: zone.celsius, default=None)
    return HealthNow(
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


def _troubles(ledger: LedgerReader) -> Mapping[str, Sequence[Trouble]]:
    found: defaultdict[str, list[Trouble]] = defaultdict(list)
    for row in device_views.problems(ledger):
        trouble = Trouble(about=row.about, text=row.text, index=row.index, since=row.time_ns)
        found[row.device].append(trouble)
    return found


_MEASURED = """
WITH newest AS (
    SELECT json_extract(value, '$[0]') AS version, json_extract(value, '$[1]') AS name
    FROM json_each(?)
), counted AS (
    SELECT device.device, evaluated_version AS version, idx, newest.name IS NOT NULL AS is_new,
        json_extract(result.value, '$.correct') AS correct,
        json_extract(result.value, '$.total') AS total
    FROM device JOIN entry ON idx = (
        SELECT max(idx) FROM entry WHERE kind = 'device.evaluated' AND entry.device = device.device
    ), json_each(entry.body, '$.results') AS result
    LEFT JOIN newest ON newest.version = evaluated_version AND newest.name = result.key
)
SELECT device, version, idx, coalesce(sum(correct), 0), coalesce(sum(total), 0),
    coalesce(sum(correct) FILTER (WHERE is_new), 0), coalesce(sum(total) FILTER (WHERE is_new), 0)
FROM counted GROUP BY device
"""


def _accuracies(ledger: LedgerReader, facts: Iterable[DeviceFacts]) -> dict[str, AccuracyThere]:
    """Return what each device measured last, of all classes and of those that came last."""
    shares = {item.device: item.mean_iou for item in facts}
    versions = {item.evaluated_version for item in facts if item.evaluated_version is not None}
    newest = [(version, name) for version in versions for name in names_of_newest(ledger, version)]
    rows = ledger.db.execute(_MEASURED, [json.dumps(newest)]).fetchall()
    return {
        device: AccuracyThere(
            version=version,
            index=index,
            all=_count(correct, total),
            old=_count(correct - new_correct, total - new_total),
            new=_count(new_correct, new_total),
            mean_iou=shares[device],
        )
        for device, version, index, correct, total, new_correct, new_total in rows
    }


def _count(correct: int, total: int) -> RightCount | None:
    return RightCount(correct=correct, total=total) if total else None
