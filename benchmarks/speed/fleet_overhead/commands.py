"""The cases that are measured, the sides of each, and how a side is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.fleet_overhead.environments import PEERS

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """Something that every side does."""

    agents: int
    floats: int | None
    """Numbers of an answer that nobody trains; None where a network is trained."""
    rounds: int
    quick_rounds: int
    quick_runs: int
    """Runs of each side under `--quick`."""
    only_once: frozenset[str] = frozenset()
    """Sides with one run under `--quick`, whose memory is not looked at then."""
    left_out: frozenset[str] = frozenset()
    """Sides without one."""

    def numbers(self, *, quick: bool) -> list[str]:
        """Return the words that every side is started with."""
        rounds = self.quick_rounds if quick else self.rounds
        floats = [] if self.floats is None else [self.floats]
        return [str(value) for value in (self.agents, *floats, rounds)]

    @property
    def title(self) -> str:
        """Of its tables."""
        if self.floats is None:
            return f"{self.agents:,} agents train a small network"
        return f"{self.agents:,} agents, {self.floats:,} float32 each"


CASES = {
    "small": Case(1_000, 10_000, 5, 4, 3, frozenset({"flwr"}), frozenset({"fleetledger-acting"})),
    "large": Case(
        1_000,
        1_000_000,
        3,
        3,
        2,
        left_out=frozenset({"flwr", "fluke", "blazefl", "fleetledger-acting"}),
    ),
    "trained": Case(100, None, 12, 8, 2, frozenset({"flwr"})),
}


@dataclass(frozen=True)
class Side:
    """A program that is measured."""

    title: str
    machinery: Callable[[list[str]], list[str]] | None = None
    """Words behind Python for agents that do not train, of a case's numbers; None if it cannot."""
    trained: Callable[[list[str]], list[str]] | None = None
    """The same for a network that is trained."""


def _script(folder: str, name: str) -> Callable[[list[str]], list[str]]:
    return lambda numbers: [str(HERE / folder / name), *numbers]


def _ours(*more: str) -> Callable[[list[str]], list[str]]:
    module = "benchmarks.speed.fleet_overhead.sides.fleetledger_side"
    return lambda numbers: ["-m", module, *numbers, *more]


def _trained(*more: str) -> Callable[[list[str]], list[str]]:
    module = "benchmarks.speed.fleet_overhead.trained.ours"
    return lambda numbers: ["-m", module, *numbers, *more]


_WORKERS = str(max(1, len(os.sched_getaffinity(0)) - 1))
SIDES = {
    "numpy": Side("bare NumPy loop", _script("sides", "bare_numpy.py")),
    "pfl": Side(
        "pfl-research, `SimulatedBackend`",
        _script("sides", "pfl_research.py"),
        _script("trained", "pfl_research.py"),
    ),
    "fluke": Side("fluke", _script("sides", "fluke_fl.py"), _script("trained", "fluke_fl.py")),
    "blazefl": Side(
        "BlazeFL, threads", _script("sides", "blaze_fl.py"), _script("trained", "blaze_fl.py")
    ),
    "fleetledger-workers": Side(
        "fleetledger, light agents, a worker for each further core",
        _ours("told", _WORKERS),
        _trained("default", _WORKERS),
    ),
    "fleetledger-light": Side(
        "fleetledger, `inprocess` with light agents", _ours("told"), _trained("default")
    ),
    "fleetledger-stack": Side("fleetledger, `engine.training = stack`", None, _trained("stack")),
    "fleetledger-acting": Side("fleetledger, agents that act by themselves", _ours("acting")),
    "flwr": Side(
        "Flower, simulation on Ray",
        _script("sides", "flower.py"),
        _script("trained", "flower.py"),
    ),
}
"""In the order of tables."""
OURS = tuple(name for name in SIDES if name.startswith("fleetledger"))
RIVALS = tuple(name for name in SIDES if name in PEERS)


def words_of(side: str, case: Case, *, quick: bool) -> list[str] | None:
    """Return what is behind Python to start a side; None if it does not do the case."""
    if quick and side in case.left_out:
        return None
    made = SIDES[side].trained if case.floats is None else SIDES[side].machinery
    return None if made is None else made(case.numbers(quick=quick))


def python_words(side: str, words: list[str], pythons: Callable[[str], Path | None]) -> list[str]:
    """Return the whole command, empty if the side's Python cannot be had."""
    if side not in PEERS:
        return [sys.executable, *words]
    python = pythons(side)
    return [] if python is None else [str(python), *words]
