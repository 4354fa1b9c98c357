"""The fleet's child processes, with real ones."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import psutil
import pytest

from fleetledger.simulator.engines.mqtt.processes import Children, child_environment
from fleetledger.simulator.errors import ProcessDiedError
from fleetledger.transport.brokers import start_child_broker

SLEEPER = [sys.executable, "-c", "import time; print('awake'); time.sleep(60)"]
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf")
time.sleep(60)
"""


def wait_until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_leaving_the_block_ends_every_process(tmp_path: Path):
    with Children(tmp_path) as children:
        pids = [children.start(f"sleeper-{i}", SLEEPER).process.pid for i in range(3)]
        children.check()
        assert not any(gone(pid) for pid in pids)
    assert all(gone(pid) for pid in pids)


def test_a_failure_in_the_block_ends_every_process(tmp_path: Path):
    pids = []

    def interrupted() -> None:
        with Children(tmp_path) as children:
            pids.append(children.start("sleeper", SLEEPER).process.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert gone(pids[0])


class InterruptingLock:
    """A lock that is interrupted as soon as it is taken."""

    def __init__(self) -> None:
        self.lock = Lock()

    def acquire(self, *arguments: bool) -> bool:
        taken = self.lock.acquire(*arguments)
        signal.raise_signal(signal.SIGINT)
        return taken

    def release(self) -> None:
        self.lock.release()


def test_an_interruption_of_a_look_keeps_no_process_from_being_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Children(tmp_path) as children:
        child = children.start("sleeper", SLEEPER)
        lock = InterruptingLock()
        monkeypatch.setattr(child.process, "_waitpid_lock", lock)
        with pytest.raises(KeyboardInterrupt):
            children.check()
        monkeypatch.undo()
        assert not lock.lock.locked()


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("fleetledger.simulator.engines.mqtt.processes.STOP_SECONDS", 0.2)
    with Children(tmp_path) as children:
        child = children.start("stubborn", [sys.executable, "-c", STUBBORN])
        wait_until(lambda: "deaf" in child.log.read_text())
    assert child.process.returncode == -signal.SIGKILL


def test_one_process_can_be_ended_while_the_others_go_on(tmp_path: Path):
    with Children(tmp_path) as children:
        first, second = (children.start(f"sleeper-{i}", SLEEPER) for i in range(2))
        children.end(["sleeper-0"])
        assert gone(first.process.pid)
        assert not gone(second.process.pid)
        children.check()
        assert children.running == [second]


def test_a_paused_process_does_nothing_until_it_is_resumed(tmp_path: Path):
    ticker = "import time\nwhile True: print('tick', flush=True); time.sleep(0.01)"
    with Children(tmp_path) as children:
        child = children.start("ticker", [sys.executable, "-c", ticker])
        wait_until(lambda: "tick" in child.log.read_text())
        child.pause()
        wait_until(lambda: psutil.Process(child.process.pid).status() == psutil.STATUS_STOPPED)
        size = child.log.stat().st_size
        time.sleep(0.1)
        assert child.log.stat().st_size == size
        child.resume()
        wait_until(lambda: child.log.stat().st_size > size)


def test_a_paused_process_hears_that_it_is_to_end(tmp_path: Path):
    with Children(tmp_path) as children:
        child = children.start("sleeper", SLEEPER)
        child.pause()
    assert child.process.returncode == -signal.SIGTERM
    child.resume()  # too late, and no error


def test_a_process_that_ended_is_reported_with_its_last_words(tmp_path: Path):
    with Children(tmp_path) as children:
        child = children.start("brief", [sys.executable, "-c", "print('my last'); exit(3)"])
        wait_until(lambda: child.process.poll() is not None)
        with pytest.raises(ProcessDiedError, match=r"(?s)brief: .*status 3.*my last"):
            children.check()


def test_a_process_that_was_killed_is_reported_with_the_signal(tmp_path: Path):
    with Children(tmp_path) as children:
        child = children.start("sleeper", SLEEPER)
        wait_until(lambda: "awake" in child.log.read_text())
        child.process.kill()
        wait_until(lambda: child.process.poll() is not None)
        with pytest.raises(ProcessDiedError, match="sleeper: ended by itself by SIGKILL: awake;"):
            children.check()


def test_the_tails_show_every_log(tmp_path: Path):
    with Children(tmp_path) as children:
        children.start("silent", [sys.executable, "-c", "import time; time.sleep(60)"])
        child = children.start("sleeper", SLEEPER)
        wait_until(lambda: "awake" in child.log.read_text())
        assert "silent.log:\n    (nothing)" in children.tails()
        assert "sleeper.log:\n    awake" in children.tails()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells children itself")
@pytest.mark.parametrize("paused", [False, True])
def test_processes_end_when_their_parent_is_killed_outright(tmp_path: Path, paused: bool):
    program = f"""
import sys, time
from pathlib import Path
from fleetledger.simulator.engines.mqtt.processes import Children
children = Children(Path({str(tmp_path)!r}))
child = children.start("sleeper", {SLEEPER!r})
if {paused}:
    child.pause()
print(child.process.pid, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not gone(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: gone(pid))


def test_children_calculate_on_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert child_environment()["OMP_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_memory_of_a_process_is_known_until_it_ends(tmp_path: Path):
    with Children(tmp_path) as children:
        child = children.start("sleeper", SLEEPER)
        wait_until(lambda: "awake" in child.log.read_text())
        assert 1 < child.resident_mib() <= child.peak_mib() < 200
    assert child.resident_mib() == child.peak_mib() == 0


def test_the_peak_of_a_process_remembers_what_it_gave_back(tmp_path: Path):
    program = "import time; b = bytearray(b'x' * (64 << 20)); del b; print('awake'); time.sleep(60)"
    with Children(tmp_path) as children:
        child = children.start("sleeper", [sys.executable, "-u", "-c", program])
        wait_until(lambda: "awake" in child.log.read_text())
        assert child.peak_mib() > child.resident_mib() + 60


@pytest.mark.broker
def test_the_broker_is_watched_and_stopped_last(tmp_path: Path):
    with Children(tmp_path) as children:
        broker = children.adopt(start_child_broker(tmp_path / "broker", ["device-1"]))
        children.start("sleeper", SLEEPER)
        children.check()
        assert "broker.log" in children.tails()
    assert not broker.running


@pytest.mark.broker
def test_a_broker_that_dies_is_noticed(tmp_path: Path):
    with Children(tmp_path) as children:
        broker = children.adopt(start_child_broker(tmp_path / "broker", ["device-1"]))
        broker.kill()
        with pytest.raises(ProcessDiedError, match=broker.kind):
            children.check()
