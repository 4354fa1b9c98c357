"""Cutting the power, or killing a program, at every effect on files of some piece of work."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.chaos.disk import Disk, Drive
from tests.chaos.volume import Volume


class CutError(BaseException):
    """The simulated end of the program."""


class Scissors:
    """Raises at the n-th crash point."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed: list[str] = []

    def point(self, name: str) -> None:
        if len(self.passed) == self.at:
            raise CutError(name)
        self.passed.append(name)


def cuts(
    folder: Path,
    prepare: Callable[[Path], None],
    work: Callable[[Path], None],
    *,
    seeds: int = 8,
    power_cut: bool = True,
) -> Iterator[Path]:
    """Yield the root as every cut leaves it: each crash point, with several outcomes each.

    The last crash point of each seed is after the end of `work`: the power goes when all is done.
    """
    for seed in range(seeds):
        at, ended = 0, False
        while not ended:
            root = folder / f"{seed}-{at}"
            root.mkdir(parents=True)
            prepare(root)
            scissors = Scissors(at)
            drive = Drive(
                Volume(root, folder / f"shadow-{seed}-{at}", Random(seed)), scissors.point
            )
            with Disk([drive]) as disk:
                try:
                    work(root)
                    ended = True
                except CutError:
                    pass
                disk.crash(drive, power_cut=power_cut)
            yield root
            shutil.rmtree(root)
            at += 1
