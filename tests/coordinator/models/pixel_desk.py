"""A coordinator that leads a fleet with FBL, and a device that answers by hand; needs no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetledger.coordinator.core.rules import RoundRules, Rules
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.models.entries import ModelExported
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.fbl.messages import received
from fleetledger.methods.registry import training_coordinator
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.round_answers import answer, asked
from tests.coordinator.shell_harness import MemoryCoordinator, ScriptedDevice, write_home

SCENES = Preprocessing(
    mode="RGB", size=(16, 24), mean=(0.5,) * 3, deviation=(0.5,) * 3, input_name="image"
)
RULES = Rules(
    rounds=RoundRules(
        per_stage=1, gather_seconds=0, pause_seconds=0.05, quorum=1.0, retention="all"
    )
)


class PixelDesk:
    """A stage is a round, in which every weight moves a little."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        broker = InMemoryBroker()
        write_home(folder, "fbl", network="small_dense")
        (folder / "scenes.json").write_text(SCENES.model_dump_json(), encoding="utf-8")
        self.coordinator = MemoryCoordinator(folder, broker, RULES)
        self.coordinator.command(AdmitDevice(device=DeviceId("dev-1")))
        self.device = ScriptedDevice("dev-1", broker, self.coordinator)
        self.device.born(ABLE)
        self.device.wait_for(Welcome)
        network = prepare_network(folder, folder / "scenes.json")
        self.coordinator.command(ImportNetwork(network=network))
        self._answers = 0

    def learn(self, *classes: str) -> ModelExported:
        """Let a stage pass, and return what its model became."""
        self.coordinator.open(*classes)
        self._answers += 1
        order = asked(self.device, self._answers)
        assert order.round is not None
        own = training_coordinator("fbl").read_assignment(order.settings)
        data = self.device.fetch(order.round.weights, self.folder / "fetched")
        names = order.round.class_names
        sent = received(own, data, order.round.weights_class_names, names)  # type: ignore[arg-type]
        random = np.random.default_rng(self._answers)
        moved = {
            name: array + random.uniform(-0.02, 0.02, array.shape).astype(np.float32)
            for name, array in sent.items()
        }
        payload = encode_tensors(WeightGrid.around(sent).encode(moved))
        samples, offer = {ClassName(classes[0]): 5}, self.device.exchange.serve(payload)
        self.device.send(answer(order, payload, method="fbl", samples=samples, offer=offer))
        receipt = self.device.wait_for(Receipt, self._answers)
        assert isinstance(receipt.answer, Accepted), receipt.answer
        self.coordinator.until(lambda: len(self.models()) == self._answers)
        return self.models()[-1]

    def models(self) -> list[ModelExported]:
        """What was exported so far."""
        ledger = self.coordinator.engine.ledger
        kind = ModelExported
        return [kind.model_validate(entry.body) for entry in ledger.find(kind)]

    def close(self) -> None:
        """End both."""
        self.device.close()
        self.coordinator.close()
