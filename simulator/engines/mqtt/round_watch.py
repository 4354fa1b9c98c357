"""Follows the rounds of a fleet of programs: measures what each gives, tells whoever watches."""

from __future__ import annotations

from functools import partial
from typing import Any

from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.schemas.values import Digest
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.mqtt.folder import FleetFolder
from fleetledger.simulator.engines.mqtt.follower import Question
from fleetledger.simulator.engines.mqtt.view import FleetView
from fleetledger.simulator.engines.network_meter import NetworkMeter
from fleetledger.simulator.engines.round_log import RoundLog
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import RoundRecord
from fleetledger.simulator.scenario.trainer import trainer_of


class RoundWatch:
    """Looks at the ledger of a coordinator that runs; close it when the fleet is at its end."""

    def __init__(self, prepared: Prepared, folder: FleetFolder, watch: Watch) -> None:
        self._prepared = prepared
        self._coordinator = folder.coordinator
        self._watch = watch
        self._trains = trainer_of(prepared.scenario) is not None
        self._meter = NetworkMeter(prepared)
        self._ledger = LedgerReader.open_read_only(ledger_path(folder.coordinator))
        self._log = RoundLog(
            self._ledger, folder.root / "rounds.jsonl", prepared.scenario.evaluation.every_rounds
        )

    def looking(self, stage: StagePlan, question: Question) -> Question:
        """Return a question that looks at the rounds of a stage whenever it is asked."""
        return partial(self._ask, stage, question)

    def records(self, stages: tuple[int, ...]) -> tuple[RoundRecord, ...]:
        """Return the rounds of some stages of the ledger, in order."""
        return self._log.records(stages)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def _ask(self, stage: StagePlan, question: Question, view: FleetView) -> str | None:
        if self._trains and self._log.look(partial(self._accuracy, stage)):
            self._watch.round(*self._log.done)
        return question(view)

    def _accuracy(
        self, stage: StagePlan, method: str, settings: dict[str, Any], weights: Digest
    ) -> float:
        store = BlobStore(str(blob_folder(self._coordinator)))
        data = Blobs(self._ledger, store).get(weights)
        seen = self._prepared.plan.seen(stage.number)
        return self._meter.accuracy(method, settings, data, seen)
