"""A program that may end: what it does while it lives, and what is left of it when it does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.simulator.virtual.clock import VirtualClock
from fleetledger.simulator.virtual.loop import Endpoint, Loop
from tests.chaos.crashable import Crashable, FaultyWorld
from tests.chaos.disk import Disk
from tests.chaos.effects import CrashPoints
from tests.chaos.faults import CALM, Crash, Troubles
from tests.chaos.faulty_network import FaultyNetwork


class Diary(Crashable):
    """A program that writes a line into a file whenever it is stepped."""

    def __init__(self, world: FaultyWorld, root: Path) -> None:
        super().__init__(world, "diary", root)
        self.path = root / "diary"
        self.begun: list[str] = []
        self.let_go_of = 0
        self.disks_lost = 0
        self.main: Endpoint

    def begin(self) -> None:
        self.begun.append(self.path.read_text() if self.path.exists() else "")
        self.main = self.endpoint(self.write)
        self.main.ask()

    def write(self) -> float:
        self.path.write_text(f"run {self.runs}")
        return math.inf

    def let_go(self) -> None:
        self.let_go_of += 1

    def lose_disk(self) -> None:
        self.disks_lost += 1


def diary(folder: Path, *crashes: Crash) -> Iterator[Diary]:
    loop, tally = Loop(VirtualClock()), Counter[str]()
    network = FaultyNetwork(loop, CALM.network_faults, 0, tally)
    points = CrashPoints(())
    troubles = Troubles(0, CALM.network_faults, {"diary": crashes}, (), ())
    world = FaultyWorld(loop, network, points, troubles, folder / "shadows", tally)
    (folder / "root").mkdir()
    program = Diary(world, folder / "root")
    with points, Disk([program.drive]) as disk:
        program.disk = disk
        loop.at(0.0, program.start)
        yield program
        program.stop()


def pass_time(program: Diary, until: float) -> None:
    loop = program.world.loop
    loop.at(until, lambda: None)
    while loop.next_time() <= until:
        loop.step()


@pytest.fixture
def calm(tmp_path: Path) -> Iterator[Diary]:
    yield from diary(tmp_path)


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Diary]:
    """Killed in the middle of its first write, and away for ten seconds."""
    yield from diary(tmp_path, Crash("file", 3, power_cut=False, down_seconds=10.0))


def test_a_program_that_nothing_happens_to_runs_once(calm: Diary) -> None:
    pass_time(calm, 100.0)
    assert (calm.runs, calm.on, calm.begun) == (1, True, [""])


def test_a_killed_program_lets_go_and_is_started_again_from_its_disk(killed: Diary) -> None:
    pass_time(killed, 9.0)
    assert (killed.runs, killed.on, killed.let_go_of) == (1, False, 1)
    pass_time(killed, 11.0)
    assert (killed.runs, killed.on) == (2, True)
    assert killed.begun[1] == "ru", "half of it had been written"
    assert killed.world.tally["kills"] == 1
    assert killed.world.tally["ended at write"] == 1


def test_an_ended_run_is_not_stepped_and_its_workers_do_not_finish(killed: Diary) -> None:
    pass_time(killed, 0.0)
    done: list[int] = []
    assert not killed.on
    run_before = killed.runs
    killed.main.ask()
    pass_time(killed, 9.0)
    assert killed.runs == run_before
    pass_time(killed, 11.0)
    killed.later("worker", lambda: done.append(killed.runs))
    killed.later("worker", lambda: done.append(-killed.runs))
    pass_time(killed, 30.0)
    assert done == [2, -2], "one after the other"


def test_what_a_run_began_is_not_finished_by_the_next(tmp_path: Path) -> None:
    for program in diary(tmp_path, Crash("file", 3, power_cut=True, down_seconds=0.001)):
        done: list[int] = []
        program.world.loop.step()
        program.later("worker", lambda: done.append(1))  # noqa: B023 - used at once
        pass_time(program, 60.0)
        assert program.runs == 2
        assert done == []


def test_a_lost_disk_is_left_to_the_program(tmp_path: Path) -> None:
    crash = Crash("file", 0, power_cut=True, down_seconds=1.0, loses_disk=True)
    for program in diary(tmp_path, crash):
        pass_time(program, 5.0)
        assert (program.disks_lost, program.runs) == (1, 2)


def test_the_end_of_a_program_speaks_its_will_once(tmp_path: Path) -> None:
    for program in diary(tmp_path):
        pass_time(program, 1.0)
        client = program.connection("control", program.main)
        client.start()
        program.stop()
        assert not client.connected
        program.stop()
        assert program.let_go_of == 1
