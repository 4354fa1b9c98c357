"""The running fleet of one demo: started, led from stage to stage, stopped."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from coordinator.serving.operator import send
from coordinator.topics.stages.commands import OpenStage
from simulator.demo.homes import make_agent, make_coordinator
from simulator.demo.material import Material
from simulator.demo.plan import Plan, StagePlan
from simulator.demo.results import StageResult, read_result
from simulator.demo.run_folder import RunFolder, write_images
from simulator.demo.screen import Screen
from simulator.demo.settings import DemoSettings
from simulator.demo.watch import stage_awaited
from simulator.engines.mqtt.ledger_source import LedgerSource
from simulator.engines.mqtt.processes import Children, fleetledger_command
from simulator.engines.mqtt.questions import birth_awaited
from simulator.engines.mqtt.view import FleetView, Report
from simulator.engines.mqtt.waiting import Follower
from transport.brokers import Broker, start_child_broker


@dataclass(frozen=True)
class Outcome:
    """What is known when the last stage is done."""

    broker: dict[str, str]
    results: list[StageResult]
    resident_mib: dict[str, float]
    reports: list[dict[str, Any]]
    """What devices reported as new, in the order of the ledger."""
    problems: list[str]
    seconds: float


@dataclass(frozen=True)
class Run:
    """What all steps of a run need."""

    settings: DemoSettings
    material: Material
    folder: RunFolder
    plan: Plan
    screen: Screen


def run_fleet(run: Run) -> Outcome:
    """Start all programs, let them learn every stage of the plan, and stop them.

    They are stopped in every case. Raises `DemoError`, or another error of the house, when
    something fails or takes too long.
    """
    started = time.monotonic()
    with Children(run.folder.logs) as children:
        broker = _start_programs(run, children)
        with closing(LedgerSource(run.folder.coordinator)) as source:
            follower = Follower(source, children, run.screen.wait)
            follower.wait(
                partial(birth_awaited, devices=run.plan.devices),
                run.settings.patience.start,
                "start",
            )
            results = [_learn(run, stage, follower) for stage in run.plan.stages]
        return Outcome(
            broker={"kind": broker.kind, "description": broker.description},
            results=results,
            resident_mib={c.name: round(c.resident_mib(), 1) for c in children.running},
            reports=[_report(report) for report in follower.view.reports],
            problems=_problems(follower.view),
            seconds=time.monotonic() - started,
        )


def _start_programs(run: Run, children: Children) -> Broker:
    """Start broker, coordinator and agents, each with its own secret."""
    prefer = None if run.settings.broker == "auto" else run.settings.broker
    users = [str(device) for device in run.settings.devices]
    broker = children.adopt(start_child_broker(run.folder.broker, users, prefer))
    run.screen.say(f"broker: {broker.description}")
    run.screen.wait("start: writing settings, admitting the devices, importing the backbone")
    make_coordinator(run.folder, broker, run.settings, run.material)
    for device in run.plan.devices:
        make_agent(run.folder, broker, device, run.plan, run.settings)
    _start(children, "coordinator", "coordinator", "serve", "--home", str(run.folder.coordinator))
    for device in run.plan.devices:
        _start(children, device, "agent", "run", "--home", str(run.folder.agent(device)))
    run.screen.say(f"programs: 1 coordinator, {len(run.plan.devices)} agents; {run.folder.root}")
    return broker


def _start(children: Children, name: str, *arguments: str) -> None:
    children.start(name, fleetledger_command(*arguments))


def _learn(run: Run, stage: StagePlan, follower: Follower) -> StageResult:
    """Let the fleet learn one stage and return what came of it."""
    started = time.monotonic()
    for device, images in stage.private.items():
        write_images(run.folder.private_images(device), images, f"stage-{stage.number}")
    if stage.number == 1 or run.settings.opening == "operator":
        send(
            run.folder.coordinator,
            OpenStage(class_names=stage.class_names),
            carry_out_here=lambda: False,  # the coordinator that runs does it
        )
    question = partial(stage_awaited, plan=run.plan, stage=stage.number)
    follower.wait(question, run.settings.patience.stage, f"stage {stage.number}")
    result = read_result(follower.view, run.plan, stage.number, time.monotonic() - started)
    run.screen.say(
        f"stage {stage.number}: opened by {result.opened}; classes "
        f"{' '.join(stage.class_names)}, model {result.version} on "
        f"all agents, accuracy {100 * result.accuracy:.2f} % on all seen classes, "
        f"{result.seconds:.1f} s"
    )
    return result


def _report(report: Report) -> dict[str, Any]:
    return {"device": report.device, **report.body.model_dump(mode="json")}


def _problems(view: FleetView) -> list[str]:
    return [f"{device}: {problem.about}: {problem.text}" for device, problem in view.problems]
