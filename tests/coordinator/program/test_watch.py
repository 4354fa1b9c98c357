"""Whatever a coordinator waits for longer than a minute is a dated problem until it is over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger import command_line
from fleetledger.coordinator.assembly import (
    AssembledCoordinator,
    CoordinatorSurroundings,
    assemble,
)
from fleetledger.coordinator.core.inputs import Tick
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.live.file import read_live
from fleetledger.coordinator.models.job_runner import Finished, ThreadJobRunner
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.live_writer import WRITE_SECONDS
from fleetledger.coordinator.reports.fleet import FleetNow, fleet_now
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.transport.clock import Clock
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.reports.test_fleet import NOW, live
from tests.coordinator.shell_harness import PATIENCE, write_home


class Leaping:
    """A clock that the test sets forward; nothing waits longer for it."""

    def __init__(self) -> None:
        self.leapt = 0.0
        self.clock = Clock(
            lambda: time.monotonic() + self.leapt,
            lambda: time.time_ns() + round(self.leapt * 1e9),
            time.sleep,
        )


class Watched:
    """A coordinator on a broker in memory, and what a person reads of it."""

    def __init__(self, home: Path) -> None:
        write_home(home)
        self.home, self.time, self.broker = home, Leaping(), InMemoryBroker()
        self.made: list[ThreadJobRunner] = []
        around = CoordinatorSurroundings(
            connect=lambda role, will: self.broker.connection(f"coordinator.{role}", will=will),
            clock=self.time.clock,
            job_runner=self.job_runner,
            snapshots=False,
        )
        self.coordinator: AssembledCoordinator = assemble(home, around)
        self.coordinator.start()

    def job_runner(self, wake: Callable[[], None]) -> ThreadJobRunner:
        self.made.append(ThreadJobRunner(wake, self.time.clock.seconds))
        return self.made[0]

    def look(self) -> FleetNow:
        """Let it write down what is known now, and read that."""
        before = read_live(self.home)
        end = time.monotonic() + PATIENCE
        while (now := read_live(self.home)) is None or before == now:
            assert time.monotonic() < end
            self.time.leapt += WRITE_SECONDS
            self.coordinator.shell.step(0.02)
        with ledger_of(self.home) as ledger:
            return fleet_now(ledger, now, self.time.clock.time_ns())

    def until(self, found: Callable[[FleetNow], bool]) -> FleetNow:
        end = time.monotonic() + PATIENCE
        while not found(fleet := self.look()):
            assert time.monotonic() < end, fleet.needs
        return fleet


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path / "home")
    made.until(lambda fleet: fleet.coordinator.connected)
    yield made
    made.coordinator.shell.say_goodbye()
    made.coordinator.close()


def hindered(fleet: FleetNow) -> list[str]:
    return [problem.text for problem in fleet.coordinator.problems if problem.hinders]


def test_a_job_that_reads_what_never_comes_is_named_with_its_date_until_it_is_over(
    watched: Watched, tmp_path: Path
) -> None:
    pipe = tmp_path / "head"
    os.mkfifo(pipe)

    def job() -> list[Finished]:
        pipe.read_bytes()
        return [Finished(Tick())]

    assert watched.look().needs == ()
    began = watched.time.clock.time_ns()
    watched.made[0].model_job(job)
    fleet = watched.until(lambda fleet: bool(hindered(fleet)))
    (problem,) = fleet.coordinator.problems
    assert "making of models does not get on" in problem.text
    assert "restart the coordinator" in problem.text
    assert problem.since is not None
    assert began < problem.since <= fleet.time
    (need,) = fleet.needs
    assert need.urgency == "now"
    assert need.sentence.startswith("The coordinator cannot do its work: ")
    assert need.since == problem.since
    shown = CliRunner().invoke(
        command_line.app, ["coordinator", "status", "--home", str(watched.home)]
    )
    assert shown.exit_code in {
        ExitCode.NEEDS_A_PERSON,
        ExitCode.NOT_RUNNING,
    }  # its clock is ahead of this process's
    pipe.write_bytes(b"it came")
    assert watched.until(lambda fleet: not hindered(fleet)).needs == ()


def test_a_second_connection_that_does_not_come_back_is_named_although_messages_go_on(
    watched: Watched,
) -> None:
    watched.broker.drop_connection("coordinator.data", comes_back=False)
    fleet = watched.until(lambda fleet: bool(hindered(fleet)))
    assert fleet.coordinator.connected
    assert "the connection for payloads and files is not there" in hindered(fleet)[0]


def test_a_lost_connection_has_its_date(watched: Watched) -> None:
    watched.broker.drop_connection("coordinator.control", comes_back=False)
    fleet = watched.until(lambda fleet: not fleet.coordinator.connected)
    since = fleet.coordinator.disconnected_since
    assert since is not None
    later = watched.look()
    assert later.coordinator.disconnected_since == since, "it is not told anew"
    assert any(
        "not connected to the broker" in need.sentence and need.since == since
        for need in later.needs
    )


def test_a_coordinator_that_stands_still_is_told_from_one_that_ended(tmp_path: Path) -> None:
    write_home(tmp_path)
    late = live(written_ns=NOW - 60 * 10**9)
    holder = Ledger.open(ledger_path(tmp_path))
    with ledger_of(tmp_path) as ledger:
        stands = fleet_now(ledger, late, NOW)
        assert stands.coordinator.process == os.getpid()
        (need,) = stands.needs
        assert f"process {os.getpid()}) stands still since" in need.sentence
        holder.close()
        ended = fleet_now(ledger, late, NOW)
    assert ended.coordinator.process is None
    assert ended.needs[0].sentence.startswith("No coordinator runs: it has not been heard of")
