"""The fleet: who was there, what they held and how well they were served; detection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import Detection, DeviceMetrics, StageMetrics
from fleetledger.simulator.plan.fleet_plan import Group
from fleetledger.simulator.report.curves import Floats, SpreadField, by_stage, of_spread
from fleetledger.simulator.report.numbers import NOTHING, count, show
from fleetledger.simulator.report.tables import table

MOST_SHOWN = 20
"""Devices up to which all are listed; of more, those that the model serves worst."""


def fleet_table(results: RunResults) -> table.Table:
    """Return who was there in each stage, in which group, and how well they were served."""
    columns = (
        table.stage_column(results.stages),
        table.counts("devices", by_stage(results, lambda stage: stage.devices)),
        table.counts("online", by_stage(results, lambda stage: stage.online)),
        *(table.counts(group, by_stage(results, _group(group))) for group in _groups(results)),
        table.counts("images arrived", by_stage(results, lambda stage: stage.arrived_samples)),
        table.counts("images counted", by_stage(results, lambda stage: stage.counted_samples)),
        *_own_accuracy(results),
        table.counts("samples stored", by_stage(results, lambda stage: stage.stored_samples.total)),
    )
    note = (
        "Images arrived with the stage; counted are those in accepted contributions. Means over "
        "seeds."
    )
    return table.from_columns("The fleet by stage", columns, note)


def _groups(results: RunResults) -> list[Group]:
    """Return the groups that anybody was in, unless all were in one."""
    met = {
        group for seed in results.seeds.values() for stage in seed.stages for group in stage.groups
    }
    order: tuple[Group, ...] = ("old", "new", "joined")
    return [group for group in order if group in met] if len(met) > 1 else []


def _group(group: Group) -> Callable[[StageMetrics], float]:
    return lambda stage: stage.groups.get(group, 0)


def has_own_accuracy(results: RunResults) -> bool:
    """Tell whether it is known how well the model serves any device."""
    return any(
        stage.device_accuracy is not None
        for seed in results.seeds.values()
        for stage in seed.stages
    )


def _own_accuracy(results: RunResults) -> tuple[table.TableColumn, ...]:
    if not has_own_accuracy(results):
        return ()
    return (
        table.shares("accuracy of a device: mean", _accuracy(results, "mean")),
        table.shares("fifth percentile", _accuracy(results, "fifth_percentile")),
        table.shares("worst", _accuracy(results, "lowest")),
        table.points("deviation", _accuracy(results, "deviation")),
    )


def _accuracy(results: RunResults, field: SpreadField) -> Floats:
    return by_stage(results, of_spread(lambda stage: stage.device_accuracy, field))


def plan_table(results: RunResults) -> table.Table:
    """Return how the plan of each seed deals the training images to the devices."""
    rows = []
    for seed, found in results.seeds.items():
        images = np.array([device.samples for device in found.devices])
        classes = np.array([device.classes for device in found.devices])
        rows.append(
            (
                str(seed),
                count(len(found.devices)),
                count(images.sum()),
                count(images.min()),
                f"{np.median(images):,.0f}",
                count(images.max()),
                count((images == 0).sum()),
                f"{classes.min()} – {classes.max()}",
                f"{classes.mean():.1f}",
            )
        )
    head = (
        "seed",
        "devices",
        "images",
        "least of a device",
        "median",
        "most",
        "devices without any",
        "classes of a device",
        "mean",
    )
    note = "An image that several devices hold is counted on each of them."
    return table.Table("What the devices hold", head, tuple(rows), note)


def device_table(results: RunResults) -> table.Table:
    """Return the devices of the first seed; of a large fleet, those that are served worst."""
    devices, served = results.first.devices, has_own_accuracy(results)
    shown = sorted(devices, key=_served)[:MOST_SHOWN] if len(devices) > MOST_SHOWN else devices
    title = (
        "Devices of the first seed"
        if len(shown) == len(devices)
        else f"The {MOST_SHOWN} devices of {len(devices):,} that the model serves worst, first seed"
        if served
        else f"{MOST_SHOWN} devices of {len(devices):,}, first seed"
    )
    own = (table.TableColumn("accuracy", tuple(show(item.accuracy, "share") for item in shown)),)
    tested = tuple(show(item.own_accuracy, "share") for item in shown)
    on_own = any(item.own_accuracy is not None for item in shown)
    columns = (
        table.TableColumn("device", tuple(item.device for item in shown)),
        table.TableColumn("group", tuple(item.group for item in shown)),
        table.TableColumn("joined in stage", tuple(str(item.joined) for item in shown)),
        table.TableColumn(
            "stages online", tuple(f"{item.online} of {item.stages}" for item in shown)
        ),
        table.TableColumn("images", tuple(count(item.samples) for item in shown)),
        table.TableColumn("classes", tuple(count(item.classes) for item in shown)),
        *(own if served else ()),
        *((table.TableColumn("own test part", tested),) if on_own else ()),
        table.TableColumn("up", tuple(show(item.bytes_up, "bytes") for item in shown)),
        table.TableColumn("down", tuple(show(item.bytes_down, "bytes") for item in shown)),
        table.TableColumn(
            "compute", tuple(show(item.compute_seconds, "seconds") for item in shown)
        ),
        table.TableColumn("samples stored", tuple(count(item.stored_samples) for item in shown)),
    )
    note = "devices.csv has every device in every stage of every seed."
    return table.from_columns(title, columns, note)


def _served(device: DeviceMetrics) -> float:
    return 2.0 if device.accuracy is None else device.accuracy


def detection_table(results: RunResults) -> table.Table:
    """Return what devices noticed, added up over seeds, by stage and kind of report."""
    rows = []
    for stage in range(results.stages):
        for position in range(len(results.first.stages[stage].detection)):
            found = [seed.stages[stage].detection[position] for seed in results.seeds.values()]
            if found[0].why == "entropy" or any(item.noticed for item in found):
                rows.append((str(stage + 1), *_detection_row(found)))
    head = (
        "stage",
        "report",
        "devices with new classes",
        "noticed",
        "missed",
        "images until then: mean",
        "most",
        "time until then: mean",
        "devices without",
        "of them alarmed",
        "false alarms",
    )
    note = (
        "Devices that were online, added up over seeds. The operator opens the first stage. A "
        "false alarm is a report of a device that had no images of new classes."
    )
    return table.Table("What the devices noticed", head, tuple(rows), note)


def _detection_row(found: list[Detection]) -> tuple[str, ...]:
    images = [delay for item in found for delay in item.delay_images]
    seconds = [delay for item in found for delay in item.delay_seconds]
    with_new, noticed = sum(i.with_new for i in found), sum(i.noticed for i in found)
    return (
        found[0].why,
        count(with_new),
        count(noticed),
        count(with_new - noticed),
        f"{np.mean(images):,.0f}" if images else NOTHING,
        count(max(images)) if images else NOTHING,
        show(float(np.mean(seconds)), "seconds") if seconds else NOTHING,
        count(sum(item.without_new for item in found)),
        count(sum(item.alarmed for item in found)),
        count(sum(item.false_alarms for item in found)),
    )


def was_detecting(results: RunResults) -> bool:
    """Tell whether devices looked for new classes, or reported any."""
    return results.stages > 1 and (
        results.scenario.detection.mode != "off" or any(map(_reported, results.first.stages))
    )


def _reported(stage: StageMetrics) -> bool:
    return any(item.noticed or item.false_alarms for item in stage.detection)
