"""One disturbed run of a scenario, compared with the run in which nothing fails."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetledger.coordinator.core.state import State
from tests.chaos.checks import (
    Broken,
    SeenMeanwhile,
    Undisturbed,
    check,
    undisturbed_end,
)
from tests.chaos.errors import ChaosError
from tests.chaos.faults import CALM, Troubles, draw_troubles
from tests.chaos.fleet import ChaosFleet
from tests.chaos.material import ChaosMaterial
from tests.chaos.report import ChaosReport

_MEMORY = Path("/dev/shm")


def run_undisturbed(material: ChaosMaterial, folder: Path) -> Undisturbed:
    """Run the fleet of a scenario without any trouble, and return what it ends with."""
    fleet = ChaosFleet(material, folder, CALM)
    with fleet.running():
        _learn(fleet)
    return undisturbed_end(fleet.places)


def run_chaos(
    material: ChaosMaterial, undisturbed: Undisturbed, seed: int, folder: Path
) -> ChaosReport:
    """Run the fleet of a scenario through the troubles of `seed`; the folder stays.

    What broke is in the report: promises, or a program that failed.
    """
    return run_troubles(material, undisturbed, draw_troubles(seed, material.programs), folder)


def run_troubles(
    material: ChaosMaterial, undisturbed: Undisturbed, troubles: Troubles, folder: Path
) -> ChaosReport:
    """Run the fleet of a scenario through given troubles; as `run_chaos`."""
    began = time.perf_counter()
    fleet = ChaosFleet(material, folder, troubles)
    live: State | None = None
    broken = []
    with fleet.running():
        try:
            _learn(fleet)
            live = fleet.coordinator.state
        except ChaosError as error:
            broken.append(Broken("every run comes to its end", str(error)))
        except Exception as error:  # noqa: BLE001 - whatever a program raised is what we look for
            place = traceback.extract_tb(error.__traceback__)[-1]
            broken.append(
                Broken("no program fails", f"{error!r} in {place.filename}:{place.lineno}")
            )
    anew = frozenset(agent.device for agent in fleet.agents if agent.installations > 1)
    broken += check(fleet.places, undisturbed, SeenMeanwhile(live, fleet.receipts, anew))
    for agent in fleet.agents:
        broken += [Broken("a device keeps a working model", how) for how in agent.broken]
    losses = [program.drive.volume.losses for program in fleet.programs]
    return ChaosReport(
        seed=troubles.seed,
        scenario=material.scenario.title,
        done={
            **{name: number for name, number in fleet.tally.items() if number},
            "files torn": sum(item.torn_files for item in losses),
            "names lost": sum(item.lost_names for item in losses),
        },
        broken=tuple(broken),
        fleet_seconds=fleet.loop.clock.now,
        slowest_seconds=fleet.slowest,
        seconds=time.perf_counter() - began,
    )


@contextmanager
def fast_folder() -> Iterator[Path]:
    """Give a folder that is gone afterwards, in memory where there is a file system for it.

    The runs need no real disk: what a loss of power takes is modelled.
    """
    parent = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fleetledger-chaos-", dir=parent) as folder:
        yield Path(folder)


def _learn(fleet: ChaosFleet) -> None:
    for stage in fleet.material.plan.stages:
        fleet.learn(stage)
    if fleet.material.rollout is not None:
        fleet.roll_out()
    fleet.calm_down()
