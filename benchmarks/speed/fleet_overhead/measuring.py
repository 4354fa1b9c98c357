"""Runs a side in a process of its own, and watches the memory of it and of all that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[3]
MIB = 2**20
_LOOK_SECONDS = 0.2
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def measure(
    command: Sequence[str], folder: Path, timeout: float, *, seed: int = 1
) -> dict[str, Any]:
    """Return what a side told of its rounds, with the machine's load before it.

    `seed` is of first weights and batches, for sides that train. Raises `RuntimeError` with its
    last words where it failed, and `subprocess.TimeoutExpired` where it took too long.
    """
    load, began = os.getloadavg()[0], time.perf_counter()
    process = _started(command, folder, seed)
    own = _told(process, command, timeout)
    seconds = time.perf_counter() - began
    return {**own, "wall_seconds": round(seconds, 2), "load_before": round(load, 1)}


def watch(command: Sequence[str], folder: Path, timeout: float) -> dict[str, float]:
    """Return the memory and the processor's seconds of a side, all its processes together.

    That is a run of its own: to look at the memory of a large process stops it for a while. Raises
    as `measure` does.
    """
    process = _started(command, folder)
    watch = _Watch(process.pid)
    try:
        own = _told(process, command, timeout)
    finally:
        watch.stop()
    return {
        "processor_seconds": round(watch.processor_seconds, 2),
        "peak_mib": max(own["own_peak_mib"], round(watch.peak / MIB, 1)),
    }


def _started(command: Sequence[str], folder: Path, seed: int = 1) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **_ENVIRONMENT, "BENCH_SEED": str(seed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _told(process: subprocess.Popen[str], command: Sequence[str], timeout: float) -> dict[str, Any]:
    """Return what a side tells at its end."""
    try:
        told, _ = process.communicate(timeout=timeout)
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(f"{command}: {told[-2000:]}")
    own: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
    return own


class _Watch:
    """What a process and its descendants take: memory, and the processor's time.

    `peak` is the most that they held at a time, in bytes. Pages that several of them share count
    once (proportional set size), or a side with many processes would look worse than it is.
    """

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._spent: dict[int, float] = {}
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    @property
    def processor_seconds(self) -> float:
        """Of all of them, as far as was seen before they ended."""
        return sum(self._spent.values())

    def stop(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with suppress(psutil.Error):
                processes = [self._root, *self._root.children(recursive=True)]
                self.peak = max(self.peak, sum(map(self._held, processes)))

    def _held(self, process: psutil.Process) -> int:
        try:
            times = process.cpu_times()
            self._spent[process.pid] = times.user + times.system
            held: int = process.memory_full_info().pss
        except psutil.Error:  # it has ended
            return 0
        return held
