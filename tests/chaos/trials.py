"""Many seeds, each on one of the small fleets; what they have in common is prepared once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from fleetledger.simulator.scenario.trainer import trainer_of
from tests.chaos.checks import Undisturbed
from tests.chaos.faults import draw_troubles
from tests.chaos.material import ChaosMaterial, prepare
from tests.chaos.report import ChaosReport
from tests.chaos.rollout_variants import TEST_PER_CLASS, rollout_variants
from tests.chaos.runs import run_troubles, run_undisturbed
from tests.chaos.variants import WITHOUT_KEYS, variants, write_pictures


class Trials:
    """Runs seeds; a seed always meets the same fleet and the same troubles.

    What the fleets have in common lies in `folder`, what they do in `runs`, by default there too.
    """

    def __init__(self, folder: Path, runs: Path | None = None, *, rollouts: bool = False) -> None:
        """With `rollouts` the fleets are those that get a candidate once they have learned."""
        self._folder = folder
        self._runs = runs or folder
        folder.mkdir(exist_ok=True)
        pictures = folder / "pictures.npz"
        self._without_keys: tuple[int, ...]
        if rollouts:
            write_pictures(pictures, TEST_PER_CLASS)
            self._scenarios, self._without_keys = rollout_variants(pictures), ()
        else:
            write_pictures(pictures)
            self._scenarios, self._without_keys = variants(pictures), WITHOUT_KEYS
        self.fleets = len(self._scenarios)
        """Different fleets; seeds meet them in turn."""
        self._prepared: dict[int, tuple[ChaosMaterial, Undisturbed]] = {}

    def can_run(self, seed: int) -> bool:
        """Whether a seed can run here: fleets that train need torch."""
        return not self.trains(seed) or find_spec("torch") is not None

    def trains(self, seed: int) -> bool:
        """Whether the fleet that a seed meets trains a network."""
        return trainer_of(self._scenarios[seed % self.fleets]) is not None

    def run(self, seed: int) -> ChaosReport:
        """Run one seed; its folder stays if a promise was broken."""
        material, undisturbed = self.prepared(seed)
        folder = self.folder(seed)
        shutil.rmtree(folder, ignore_errors=True)
        troubles = draw_troubles(seed, material.programs)
        if material.rollout is not None:
            # What a device says of its model has no receipt, and is said again with its next birth
            # alone; a broker keeps such a message until it is delivered.
            network = replace(troubles.network_faults, loss=0.0)
            troubles = replace(troubles, network_faults=network)
        report = run_troubles(material, undisturbed, troubles, folder)
        if not report.broken:
            shutil.rmtree(folder)
        return report

    def prepared(self, seed: int) -> tuple[ChaosMaterial, Undisturbed]:
        """Return the fleet that a seed meets, and what it ends with undisturbed."""
        number = seed % self.fleets
        if number not in self._prepared:
            scenario, folder = self._scenarios[number], self._folder / f"material-{number}"
            material = prepare(scenario, folder, keys=number not in self._without_keys)
            undisturbed = run_undisturbed(material, self.undisturbed_folder(seed))
            self._prepared[number] = (material, undisturbed)
        return self._prepared[number]

    def undisturbed_folder(self, seed: int) -> Path:
        """Return what the fleet that a seed meets left when nothing failed."""
        return self._folder / f"undisturbed-{seed % self.fleets}"

    def folder(self, seed: int) -> Path:
        """Return where a seed runs."""
        return self._runs / f"seed-{seed}"
