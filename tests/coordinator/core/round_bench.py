"""A core that leads a network through rounds, driven the way the shell does."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.core.rules import RoundRules, Rules, StageRules
from fleetledger.coordinator.core.work import (
    AverageRound,
    FreezeNetwork,
    TakePayload,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution, Nothing, PartKey
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.rounds import RoundAnswer, RoundOrder
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.harness import (
    CAPABLE,
    PREPROCESSING,
    Bench,
    can_learn,
    names,
    offer,
    receipt,
    sent,
)

ABLE = CAPABLE.model_copy(update={"features": frozenset({"numpy", "onnxruntime", "torch"})})
NETWORK = NetworkImported(
    name="mlp",
    weights=offer("first weights"),
    golden=offer("golden"),
    preprocessing=PREPROCESSING,
    method="rounds",
    settings={},
)


class RoundBench(Bench):
    """Three able devices, one stage of a network, and quick rounds."""

    def __init__(self, devices: int = 3, **rules: object) -> None:
        settings = {
            "per_stage": 2,
            "quorum": 0.5,
            "deadline_seconds": 100.0,
            "pause_seconds": 5.0,
        } | rules
        super().__init__(
            Rules(
                rounds=RoundRules.model_validate(settings),
                stages=StageRules(deadline_seconds=10.0, quiet_seconds=0.0),
            )
        )
        self.devices = tuple(f"dev-{number}" for number in range(1, devices + 1))

    def lead(
        self, network: NetworkImported = NETWORK, capabilities: Capabilities = ABLE
    ) -> list[Request]:
        """Import the network, open a stage, and let the first round open."""
        for device in self.devices:
            self.command(AdmitDevice(device=DeviceId(device)))
            self.born(device, capabilities=capabilities)
        self.command(ImportNetwork(network=network))
        self.command(OpenStage(class_names=names("cat", "dog")))
        return self.wait(0)

    def imports(self, network: NetworkImported) -> list[Request]:
        """Let another network lead."""
        command = ImportNetwork(network=network)
        return self.handle(inputs.OperatorCommand(f"ticket {self.core.state.size}", command))

    def orders(self, requests: list[Request]) -> dict[str, RoundOrder]:
        """What each device is asked to train, of the assignments among the requests."""
        found = {}
        for request in requests:
            body = getattr(request, "body", None)
            if isinstance(body, Assignment) and body.round is not None:
                found[str(request.device)] = body.round  # type: ignore[union-attr]
        return found

    def answer(self, device: str, number: int = 1, text: str = "", **changes: object) -> Receipt:
        """Give weights, and let their payload arrive if it is wanted."""
        requests = self.message(device, update_of(number, text or device, **changes))
        taken = [r for r in requests if isinstance(r, TakePayload)]
        if taken:
            requests = self.handle(inputs.PayloadOutcome(DeviceId(device), taken[0].contribution))
        return receipt(requests)

    def decline(self, device: str, number: int = 1, reason: str = "") -> Receipt:
        return receipt(self.message(device, Nothing(stage=1, round=number, reason=reason)))

    def restart(self) -> None:
        """Replay the ledger into a new core, as after a crash; nobody is connected yet."""
        self.core = Core(self.rules, can_learn=can_learn)
        for body, device, time_ns in self.entries:
            self.core.state.apply(body, device, time_ns)

    def average(self, request: AverageRound) -> list[Request]:
        """Answer as a worker would."""
        return self.handle(averaged(request))

    def whole_round(self, number: int) -> AverageRound:
        """Let everybody answer; return what is to be averaged."""
        for device in self.devices:
            self.answer(device, number)
        self.wait(0)
        return self.asked_for(AverageRound)

    def asked_for(self, kind: type) -> AverageRound | FreezeNetwork:  # type: ignore[type-arg]
        (request,) = [r for r in self.wait(0) if isinstance(r, kind)]
        return request

    def told(self, kind: type[EntryBody]) -> list[EntryBody]:
        return [body for body, _, _ in self.entries if isinstance(body, kind)]


def update_of(number: int, text: str, **changes: object) -> Contribution:
    data = text.encode()
    values = {
        "key": PartKey(stage=1, part=number),
        "revision": 0,
        "payload_kind": "weights",
        "method": "rounds",
        "lineage": NETWORK.digest,
        "payload": Digest.of(data),
        "payload_bytes": len(data),
        "samples": {"cat": 3},
        "round": RoundAnswer(number=number, samples=3, steps=2, seconds=0.5),
    }
    return Contribution.model_validate(values | changes)


def averaged(request: AverageRound) -> WeightsAveraged:
    return WeightsAveraged(
        number=request.opened.number,
        lineage=request.lineage.digest,
        inputs=tuple(item.index for item in request.inputs),
        class_names=request.opened.class_names,
        aggregate=Digest.of(b"sum"),
        weights=offer(f"weights {request.opened.number}"),
        samples=sum(item.samples for item in request.inputs),
        client_drift=0.5,
        fingerprint={"cpu": "test"},
        seconds=0.1,
    )


__all__ = ["ABLE", "NETWORK", "RoundBench", "averaged", "sent", "update_of"]
