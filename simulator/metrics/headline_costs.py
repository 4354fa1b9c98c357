"""Headline numbers of what it cost, and of how well new classes were noticed."""

from __future__ import annotations

from fleetledger.simulator.metrics.metric import MeasuredSeed, Metric, mean_delay, share
from fleetledger.simulator.metrics.seed_metrics import DeviceMetrics


def _traffic(device: DeviceMetrics) -> int:
    return device.bytes_up + device.bytes_down


def _answers_per_second(measured: MeasuredSeed) -> float | None:
    timed = [stage for stage in measured.stages if stage.seconds.get("total", 0.0) > 0]
    answers = sum(stage.answers for stage in timed)
    return answers / sum(stage.seconds["total"] for stage in timed) if answers else None


def _missed(measured: MeasuredSeed) -> float | None:
    found = measured.entropy_reports()
    with_new = sum(item.with_new for item in found)
    return share(with_new - sum(item.noticed for item in found), with_new)


def _alarmed(measured: MeasuredSeed) -> float | None:
    found = measured.entropy_reports()
    return share(sum(item.alarmed for item in found), sum(item.without_new for item in found))


COST = (
    Metric(
        "bytes_up",
        "sent by the fleet",
        "bytes",
        "lower",
        "Payload bytes of all devices over all stages, counted by the transport.",
        lambda seed: sum(device.bytes_up for device in seed.devices),
    ),
    Metric(
        "bytes_down",
        "received by the fleet",
        "bytes",
        "lower",
        "Likewise, towards the devices.",
        lambda seed: sum(device.bytes_down for device in seed.devices),
    ),
    Metric(
        "bytes_per_device",
        "sent and received per device",
        "bytes",
        "lower",
        "Both directions over all stages, mean over the devices that were ever there.",
        lambda seed: seed.over_devices(_traffic),
    ),
    Metric(
        "bytes_of_busiest_device",
        "of the busiest device",
        "bytes",
        "lower",
        "Both directions over all stages, of the device with the most.",
        lambda seed: max(_traffic(device) for device in seed.devices),
    ),
    Metric(
        "stored_samples",
        "samples stored in the fleet",
        "samples",
        "lower",
        "Samples that devices keep for their learning after the last stage.",
        lambda seed: sum(device.stored_samples for device in seed.devices),
    ),
    Metric(
        "compute_seconds",
        "device compute of the fleet",
        "seconds",
        "lower",
        "Seconds of computing of all devices, on the machine that simulated them.",
        lambda seed: sum(device.compute_seconds for device in seed.devices),
    ),
    Metric(
        "compute_seconds_per_device",
        "device compute per device",
        "seconds",
        "lower",
        "Mean over the devices that were ever there.",
        lambda seed: seed.over_devices(lambda device: device.compute_seconds),
    ),
    Metric(
        "wall_seconds",
        "time of the run",
        "seconds",
        "lower",
        "Wall time of all stages on this machine.",
        lambda seed: sum(stage.wall_seconds for stage in seed.stages),
    ),
    Metric(
        "answers_per_second",
        "answers of devices",
        "per second",
        "higher",
        "Answers in all rounds (without rounds, devices that said something of a stage) by the "
        "wall time of all stages on this machine, without evaluation.",
        _answers_per_second,
    ),
    Metric(
        "fleet_seconds",
        "time of the fleet",
        "seconds",
        "lower",
        "By the fleet's own clock, from the opening of each stage to its model.",
        lambda seed: sum(stage.fleet_seconds for stage in seed.stages),
    ),
    Metric(
        "peak_memory_mib",
        "peak memory",
        "mebibytes",
        "lower",
        "Highest resident memory of the simulating process.",
        lambda seed: max(stage.peak_memory_mib for stage in seed.stages),
    ),
)
DETECTION = (
    Metric(
        "detection_delay_images",
        "images until new classes are noticed",
        "images",
        "lower",
        "Images that a device had been given of a stage when it first rightly reported doubts.",
        lambda seed: mean_delay([d for item in seed.entropy_reports() for d in item.delay_images]),
    ),
    Metric(
        "detection_delay_seconds",
        "time until new classes are noticed",
        "seconds",
        "lower",
        "By the fleet's clock, from the arrival of the stage's data.",
        lambda seed: mean_delay([d for item in seed.entropy_reports() for d in item.delay_seconds]),
    ),
    Metric(
        "detection_missed",
        "new classes missed",
        "share",
        "lower",
        "Of devices and stages with new classes, the share that did not report doubts.",
        _missed,
    ),
    Metric(
        "detection_false_alarms",
        "false alarms",
        "share",
        "lower",
        "Of devices and stages without new classes, the share that reported doubts.",
        _alarmed,
    ),
)
