"""A real fleet through SIGKILL and SIGSTOP of broker, coordinator and agents while images come.

Everything is as a user has it (`shipped_fleet`): a Mosquitto with the files of `broker-config`,
keys enrolled by token, an owner's root and signed releases, each program a process. Faults and
images are drawn from the seed before the start (`fleet_plan`). At the end every image counts once,
aggregate and head are those of an undisturbed fleet with the same images, digest for digest, ledger
and stores fit, and every device runs the last model within 30 seconds of the last fault.

python -m tests.promises.real_fleet [--seeds 1-3] [--minutes 4] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.state_fold import fold
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.simulator.engines.mqtt.processes import Children
from tests.chaos.checks import (
    PROMISES,
    Broken,
    ChaosRun,
    SeenMeanwhile,
    Undisturbed,
    broken_promises,
    learned_end,
)
from tests.chaos.outcome import read_outcome
from tests.chaos.seed_runs import read_range
from tests.promises.fleet_plan import (
    BROKER,
    CLASSES,
    COORDINATOR,
    FIRST_CLASSES,
    FleetPlan,
    draw_plan,
)
from tests.promises.shipped_fleet import ShippedFleet

BOUND_SECONDS = 30.0
PATIENCE_SECONDS = 240.0
"""After the last fault, to see how long it takes where the bound is broken."""
_LOOK_SECONDS = 0.1
OF_PROGRAMS = {
    "a replay gives the state",
    "a receipt is true",
    "every mean can be made again from the ledger",
    "a device has the key that is enrolled",
}
"""Promises that are seen by watching programs alone, not in what they left."""


@dataclass
class Course:
    """How a run went."""

    plan: FleetPlan
    broken: list[Broken] = field(default_factory=list)
    late: dict[str, float] = field(default_factory=dict)
    """Seconds from the last fault until each device ran the last model."""
    counted: Counter[str] = field(default_factory=Counter)
    """Images in the sum, by device."""
    end: Undisturbed | None = None
    version: int = 0
    told: list[str] = field(default_factory=list)
    """What was done, and when; faults are carried out a little after their moments."""


class Runner:
    """Carries a plan out on a fleet, and waits for its end."""

    def __init__(self, fleet: ShippedFleet, plan: FleetPlan) -> None:
        self.course = Course(plan)
        self._fleet = fleet
        self._state = State()
        self._began = time.monotonic()
        self._over = 0.0
        """When the last fault had ended."""
        self._since: dict[str, tuple[int | None, float]] = dict.fromkeys(plan.devices, (None, 0.0))
        """Which model each device runs, and from when on."""

    def run(self) -> Course:
        """Do what is planned, and wait until all is learned everywhere."""
        plan, fleet = self.course.plan, self._fleet
        for name in (COORDINATOR, *plan.devices):
            fleet.start_program(name)
        self._do("stage 1", lambda: fleet.open_stage(range(FIRST_CLASSES)))
        for moment, what, act in self._acts():
            self._wait(lambda moment=moment: self._now >= moment)  # type: ignore[misc]
            self._do(what, act)
        self._over = self._now
        if not self._wait(self._settled, self._over + PATIENCE_SECONDS):
            self._broke("the run comes to its end", self._state_of_affairs())
        self._note_end()
        return self.course

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _acts(self) -> list[tuple[float, str, Callable[[], None]]]:
        plan, fleet = self.course.plan, self._fleet
        acts: list[tuple[float, str, Callable[[], None]]] = [
            (plan.second_stage, "stage 2", lambda: fleet.open_stage(range(FIRST_CLASSES, CLASSES)))
        ]
        for fault in plan.faults:
            what = f"{fault.program} {fault.kind}"
            acts.append((fault.at, what, lambda fault=fault: fleet.begin(fault)))  # type: ignore[misc]
            acts.append((fault.end, f"{what} ends", lambda fault=fault: fleet.end(fault)))  # type: ignore[misc]
        for item in plan.deliveries:
            what = f"{len(item.images)} images for {item.device}"
            acts.append((item.at, what, lambda item=item: fleet.deliver(item)))  # type: ignore[misc]
        return sorted(acts, key=lambda act: act[0])

    def _do(self, what: str, act: Callable[[], None]) -> None:
        self.course.told.append(f"{self._now:8.2f}  {what}")
        act()

    def _wait(self, done: Callable[[], bool], until: float = math.inf) -> bool:
        while not done():
            if self._now > until:
                return False
            self._look()
            time.sleep(_LOOK_SECONDS)
        return True

    def _look(self) -> None:
        for name in self._fleet.died():
            self._broke("no program ends by itself", f"{name}, after {self._now:.1f} s")
            self._fleet.start_program(name)
        for device in self._fleet.devices:
            version = self._fleet.runs(device)
            if self._since[device][0] != version:
                self._since[device] = (version, self._now)

    def _settled(self) -> bool:
        """Whether all images are in the newest model, and every device runs it."""
        with ledger_of(self._fleet.home) as ledger:
            fold(self._state, ledger.entries(self._state.size))
        state, plan = self._state, self.course.plan
        self.course.counted = self._counted()
        model, desired = state.models.newest, state.models.desired
        if model is None or desired is None:
            return False
        self.course.version = model.solved.version
        return (
            all(self.course.counted[name] == plan.images(name) for name in plan.devices)
            and state.contributions.unchanged_since(model.solved.ledger_size)
            and desired.version == model.solved.version
            and all(self._since[name][0] == desired.version for name in plan.devices)
        )

    def _counted(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for item in self._state.contributions.counted.values():
            found[item.device] += sum(item.samples.values())
        return found

    def _note_end(self) -> None:
        for device, (version, since) in self._since.items():
            late = max(0.0, since - self._over) if version == self.course.version else math.inf
            self.course.late[device] = late

    def _state_of_affairs(self) -> str:
        state = self._state
        runs = {name: version for name, (version, _) in self._since.items()}
        return (
            f"{sum(self.course.counted.values())} images in the sum, model {self.course.version}, "
            f"desired {state.models.desired}, devices run {runs}"
        )

    def _broke(self, promise: str, how: str) -> None:
        self.course.broken.append(Broken(promise, how))


def run_plan(plan: FleetPlan, folder: Path, undisturbed: Undisturbed | None = None) -> Course:
    """Run a plan with a fleet in `folder`; look into what it left.

    It is held to `undisturbed`, or, without, to itself.
    """
    logs = folder / "logs"
    logs.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(asdict(plan), indent=1), encoding="utf-8")
    with Children(logs) as children:
        fleet = ShippedFleet(folder, plan.devices, children)
        try:
            course = Runner(fleet, plan).run()
        finally:
            fleet.stop()
        (folder / "told.txt").write_text("\n".join(course.told) + "\n", encoding="utf-8")
        outcome = read_outcome(fleet.places)
        if outcome.model is not None:
            course.end = learned_end(outcome)
            end = undisturbed or course.end
            left = ChaosRun(fleet.places, end, SeenMeanwhile(None, ()))
            course.broken += broken_promises(left, PROMISES.keys() - OF_PROGRAMS)
        for words in (("ledger", "verify"), ("ledger", "replay", "--all")):
            try:
                fleet.operator(*words)
            except AssertionError as error:
                course.broken.append(Broken(" ".join(words), str(error)))
    return course


def trouble(
    seed: int, seconds: float, folder: Path, *, devices: int = 5, bound: float = BOUND_SECONDS
) -> Course:
    """Run an undisturbed fleet and a troubled one with the same images; compare them."""
    plan = draw_plan(seed, seconds, [f"camera-{number}" for number in range(1, devices + 1)])
    calm = run_plan(plan.without_faults(), folder / "undisturbed")
    if calm.end is None or calm.broken:
        raise AssertionError(f"the undisturbed fleet: {calm.broken}")
    course = run_plan(plan, folder / "troubled", calm.end)
    for device, late in course.late.items():
        if late > bound:
            text = f"{device}: {_seconds(late)}; {bound:g} s are promised"
            course.broken.append(Broken("the last model is everywhere in time", text))
    return course


def _seconds(late: float) -> str:
    return "never" if late == math.inf else f"{late:.1f} s"


def show(course: Course, console: Console) -> None:
    """Print what was done, what came of it, and what broke."""
    plan = course.plan
    faults = Counter((fault.program, fault.kind) for fault in plan.faults)
    table = Table(title=f"seed {plan.seed}: {plan.over:.0f} s, {len(plan.faults)} faults")
    for column in ("program", "SIGKILL", "SIGSTOP", "images added", "counted", "last model after"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for name in (BROKER, COORDINATOR):
        table.add_row(name, str(faults[name, "kill"]), str(faults[name, "stop"]), "", "", "")
    for name in plan.devices:
        numbers = (faults[name, "kill"], faults[name, "stop"], plan.images(name))
        late = _seconds(course.late.get(name, math.inf))
        table.add_row(name, *map(str, numbers), str(course.counted[name]), late)
    kills = sum(number for (_, kind), number in faults.items() if kind == "kill")
    images = sum(plan.images(name) for name in plan.devices)
    late = _seconds(max(course.late.values(), default=math.inf))
    numbers = (kills, len(plan.faults) - kills, images, course.counted.total())
    table.add_row("all", *map(str, numbers), late, style="bold")
    console.print(table)
    end = course.end
    lines = [
        f"model {course.version}; aggregate {end.aggregate if end else None}, head "
        f"{end.head if end else None}",
        f"load average at the end {os.getloadavg()[0]:.1f}, on {os.cpu_count()} cores",
        *(f"BROKEN: {broken}" for broken in course.broken),
    ]
    if not course.broken:
        lines.append(
            "every image counts once, sum and head are those of the undisturbed fleet, `ledger "
            "verify` and `ledger replay --all` fit, the last model is everywhere in time"
        )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises.real_fleet")
    parser.add_argument("--seeds", type=read_range, default="1-3", help="first and last, or one")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--devices", type=int, default=5)
    parser.add_argument("--bound", type=float, default=BOUND_SECONDS, help="seconds")
    parser.add_argument("--keep", type=Path, default=Path("real-fleet"), help="of failing runs")
    given = parser.parse_args()
    console = Console()
    failed = False
    for seed in given.seeds:
        with tempfile.TemporaryDirectory(prefix="fleetledger-") as name:
            folder = Path(name)
            course = trouble(
                seed, 60 * given.minutes, folder, devices=given.devices, bound=given.bound
            )
            show(course, console)
            if course.broken:
                failed = True
                kept = given.keep / f"seed-{seed}-{int(time.time())}"
                shutil.copytree(folder, kept, symlinks=True)
                console.print(f"homes and logs: {kept}", soft_wrap=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
