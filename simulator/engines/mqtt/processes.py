"""The fleet's child processes: started with a log file each, watched, and always stopped.

They end with us in every case: `stop` in an orderly way, and where we cannot call it any more
(killed outright), Linux kills them itself, also those that are paused; they are made to bear it.
The broker is started by `transport`; here it is watched like the others and stopped after them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from typing_extensions import Self

from fleetledger.runtime.registry import modules_for_children
from fleetledger.simulator.errors import ProcessDiedError
from fleetledger.transport.brokers import Broker
from fleetledger.transport.brokers.lifeline import end_with_parent, interrupted_later

STOP_SECONDS = 30.0
"""After which a program that was asked to end is killed; far above what a busy machine needs."""
TAIL_LINES = 8
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class Child:
    """One running program and the file with what it says."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def resident_mib(self) -> float:
        """Return the memory that the program holds now, 0 when it is gone."""
        try:
            return float(psutil.Process(self.process.pid).memory_info().rss / 2**20)
        except psutil.NoSuchProcess:
            return 0.0

    def peak_mib(self) -> float:
        """Return the most memory that the program has held; where Linux does not say, as now."""
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return self.resident_mib()
        peaks = [int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:")]
        return peaks[0] / 2**10 if peaks else self.resident_mib()

    def pause(self) -> None:
        """Keep the program from running until `resume`, or until it is stopped."""
        _signal_group(self.process, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused program run; from any thread."""
        _signal_group(self.process, signal.SIGCONT)


@dataclass
class Children:
    """All programs of a run, in the order of their start; leaving the block stops them.

    Start them from the main thread: where it ends, so do they.
    """

    logs: Path
    running: list[Child] = field(default_factory=list)
    broker: Broker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def adopt(self, broker: Broker) -> Broker:
        """Watch a running broker too, and stop it last."""
        self.broker = broker
        return broker

    def start(self, name: str, command: list[str]) -> Child:
        """Start `command` with output into `<logs>/<name>.log`."""
        path = self.logs / f"{name}.log"
        with path.open("ab") as log, interrupted_later():
            process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=child_environment(),
                start_new_session=True,  # Ctrl-C reaches us alone, and we stop them in order
                preexec_fn=end_with_parent(signal.SIGKILL),  # noqa: PLW1509 - one system call, no locks
            )
            child = Child(name, process, path)
            self.running.append(child)
        return child

    def check(self) -> None:
        """Raise `ProcessDiedError` with the reason of a program that ended by itself."""
        with interrupted_later():  # `poll` would keep its lock, interrupted right after taking it
            ended = [
                (child.name, _how(status), child.log)
                for child in self.running
                if (status := child.process.poll()) is not None
            ]
            if self.broker is not None and not self.broker.running:
                ended.insert(0, (self.broker.kind, "", _log_of(self.broker)))
        for name, how, log in ended:
            raise ProcessDiedError(
                f"{name}: ended by itself{how}: {_last_words(log)}; the end of\n{_tail(log)}"
            )

    def tails(self) -> str:
        """Return the last lines of every log, for an error message."""
        brokers = [_log_of(self.broker)] if self.broker else []
        return "\n".join(_tail(log) for log in (*brokers, *(child.log for child in self.running)))

    def end(self, names: Collection[str]) -> None:
        """End the programs of these names as `stop` does; the others go on."""
        self._end([child for child in self.running if child.name in names])

    def stop(self) -> None:
        """Ask all programs to end, the newest first; kill what does not within half a minute."""
        try:
            self._end(self.running[::-1])
        finally:
            if self.broker is not None:
                self.broker.stop()
                self.broker = None

    def _end(self, children: list[Child]) -> None:
        for child in children:
            _signal_group(child.process, signal.SIGTERM)
            child.resume()  # a paused program would not hear it
        end = time.monotonic() + STOP_SECONDS
        for child in children:
            try:
                child.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(child.process, signal.SIGKILL)
                child.process.wait()
        self.running = [child for child in self.running if child not in children]


def fleetledger_command(*arguments: str) -> list[str]:
    """Return the command line of this program itself, in this Python."""
    return [sys.executable, "-m", "fleetledger", *arguments]


def child_environment() -> dict[str, str]:
    """Return our environment with one numerical thread: the programs share few cores."""
    ours = {**dict.fromkeys(_ONE_THREAD, "1"), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **ours, **modules_for_children()}


def _log_of(broker: Broker) -> Path:
    return broker.directory / "broker.log"


def _how(status: int) -> str:
    """Return how a program ended, by what Python gives as its status."""
    if status >= 0:
        return f" with status {status}"
    try:
        return f" by {signal.Signals(-status).name}"
    except ValueError:
        return f" by signal {-status}"


def _last_words(log: Path) -> str:
    """Return the last line that says something, such as an error and its way out."""
    said = [line.strip() for line in _lines(log) if line.strip()]
    return said[-1].removeprefix("fleetledger: ") if said else "it said nothing"


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()


def _tail(log: Path) -> str:
    """Return the path and, indented, the last lines of a log."""
    lines = _lines(log)
    shown = lines[-TAIL_LINES:] or ["(nothing)"]
    return "\n".join([f"  {log}:", *(f"    {line}" for line in shown)])


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with interrupted_later():
        if process.poll() is None:
            os.killpg(process.pid, number)
