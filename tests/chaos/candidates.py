"""Candidates of a fleet in chaos: made once of each model, since all runs end with the same one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.models.entries import ImportedFiles
from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.rollouts.candidate_import import import_candidate, material_of
from fleetledger.simulator.rollouts.candidates import make_candidate
from fleetledger.simulator.scenario.rollout import RolloutSettings


@dataclass
class CandidateShelf:
    """Makes candidates of one scenario, and keeps them."""

    settings: RolloutSettings
    test: SampleSet
    seed: int
    _made: dict[tuple[Digest, Digest], tuple[ImportedFiles, tuple[bytes, ...]]] = field(
        default_factory=dict
    )

    def stored(self, home: Path, state: State) -> ImportedFiles:
        """Put the files of a candidate of what all devices are to run into a coordinator's store.

        `home` is the coordinator's, `state` what its ledger says.
        """
        store = BlobStore(blob_folder(home))
        with LedgerReader.open_read_only(ledger_path(home)) as ledger:
            read = Blobs(ledger, store).get
            material = material_of(state, read, self.settings, self.test)
        key = (material.manifest.frozen.digest, material.manifest.head.digest)
        if key not in self._made:
            candidate = make_candidate(self.settings.candidate, material, self.seed)
            files = import_candidate(home, candidate, material.manifest)
            offers = (files.frozen, files.head, files.golden, files.golden_scores)
            self._made[key] = files, tuple(store.get(offer.digest) for offer in offers)
        imported, contents = self._made[key]
        for content in contents:
            store.put(content)
        return imported
