"""What came out of each stage, read from the view when the stage was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.values import ClassName, DeviceId, Digest
from simulator.demo.plan import Plan
from simulator.engines.mqtt.view import FleetView
from simulator.errors import DemoError
from simulator.metrics.task_scores import TaskScores


@dataclass(frozen=True)
class DeviceTotals:
    """Payload bytes that one agent has sent and received since it started."""

    up: int
    down: int


@dataclass(frozen=True)
class StageResult:
    """One stage, measured on the devices with the model that runs there."""

    stage: int
    class_names: tuple[ClassName, ...]
    opened: str
    """Why the stage was opened, as the ledger says."""
    version: int
    """Of the model; above the stage's number when late contributions made a newer one."""
    aggregate: Digest
    manifest: Digest
    correct: dict[ClassName, int]
    total: dict[ClassName, int]
    """Right answers and questions per seen class, summed over the agents."""
    contributions: int
    """Accepted for this stage."""
    payload_bytes: int
    """Of these contributions."""
    traffic: dict[DeviceId, DeviceTotals]
    providers: tuple[str, ...]
    solve_seconds: float
    seconds: float
    """From the first private image of the stage to the last agent's accuracy."""

    @property
    def accuracy(self) -> float:
        """Share of right answers on the test images of all seen classes."""
        return sum(self.correct.values()) / sum(self.total.values())


def read_result(view: FleetView, plan: Plan, stage: int, seconds: float) -> StageResult:
    """Return the result of stage number `stage`; to be called when it is done."""
    model = view.desired_model
    assert view.desired is not None
    assert model is not None
    assert model.exported is not None
    evaluations = [view.evaluations[device, view.desired] for device in plan.devices]
    sizes = _payload_sizes(view, stage)
    seen = plan.seen(stage)
    return StageResult(
        stage=stage,
        class_names=plan.stages[stage - 1].class_names,
        opened=view.state.stages.by_number[stage].opened_by,
        version=view.desired,
        aggregate=model.solved.aggregate,
        manifest=model.exported.manifest.digest,
        correct={n: sum(e.results[n].correct for e in evaluations if n in e.results) for n in seen},
        total={n: sum(e.results[n].total for e in evaluations if n in e.results) for n in seen},
        contributions=len(sizes),
        payload_bytes=sum(sizes),
        traffic={
            device: DeviceTotals(evaluation.bytes_up, evaluation.bytes_down)
            for device, evaluation in zip(plan.devices, evaluations, strict=True)
        },
        providers=tuple(sorted({evaluation.provider for evaluation in evaluations})),
        solve_seconds=model.solved.seconds,
        seconds=seconds,
    )


def _payload_sizes(view: FleetView, stage: int) -> list[int]:
    return [
        view.payload_bytes[index]
        for index, part in view.state.contributions.counted.items()
        if part.key.stage == stage
    ]


def traffic_of_stage(results: Sequence[StageResult], position: int) -> tuple[int, int]:
    """Return bytes up and down of all agents in the stage at `position` of `results`.

    Agents report what they sent since they started, so a stage's share is a difference.
    """
    up, down = _sum_traffic(results[position])
    if position == 0:
        return up, down
    earlier_up, earlier_down = _sum_traffic(results[position - 1])
    return up - earlier_up, down - earlier_down


def _sum_traffic(result: StageResult) -> tuple[int, int]:
    totals = result.traffic.values()
    return sum(total.up for total in totals), sum(total.down for total in totals)


def shortened(names: Sequence[ClassName], between: str = " ") -> str:
    """Return the names in a row; of more than four the first and how many follow."""
    return between.join(names) if len(names) <= 4 else f"{names[0]} +{len(names) - 1}"


def task_scores(results: Sequence[StageResult]) -> TaskScores:
    """Return right answers per stage and task; a task is the classes of one stage.

    Raises `DemoError` when stages are missing or a seen class was not asked about.
    """
    stages = len(results)
    correct, total = np.zeros((2, stages, stages), np.int64)
    for t, result in enumerate(results):
        for i, task in enumerate(results[: t + 1]):
            try:
                correct[t, i] = sum(result.correct[name] for name in task.class_names)
                total[t, i] = sum(result.total[name] for name in task.class_names)
            except KeyError as error:
                raise DemoError(
                    f"stage {result.stage}: nobody was asked about class {error.args[0]}"
                ) from error
    return TaskScores(correct, total)
