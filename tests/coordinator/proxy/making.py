"""A small fleet of LGA as its proxy sees it: orders, weights, gradients, scripted speakers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fleetledger.coordinator.proxy.program import build
from fleetledger.coordinator.proxy.settings import Limits, ProxyHomeSettings
from fleetledger.coordinator.proxy.shell import ProxyProgram
from fleetledger.methods.lga.coordinator import COORDINATOR as LGA
from fleetledger.methods.lga.gradient_sets import GradientSet, encode_gradients
from fleetledger.methods.training.network_weights import decode_weights, encode_weights, grown
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.envelope import (
    COORDINATOR,
    INLINE_LIMIT,
    PROXY,
    Envelope,
    Sender,
    decode,
    encode,
)
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import Preprocessing
from fleetledger.schemas.proxy import PrototypeGradients, Scored, ScoringOrder
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.interface import IncomingMessage, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker, InMemoryConnection
from fleetledger.transport.transfer import BlockExchange
from tests.methods.lga.making import ANT, BEE, assignment

FLEET = FleetId("mill")
ORDINARY, BRANCH = FleetTopics(FLEET), FleetTopics(FLEET, "proxy")
ONE, OTHER = DeviceId("dev-a"), DeviceId("dev-b")
LINEAGE = Digest.of(b"the network")
QUICK = {"inversion_steps": 2, "inversion_kept": 2, "worst_distance": 1e9}
OF = assignment(**QUICK)
PREPROCESSING = Preprocessing(
    mode="L", size=(8, 8), mean=(0.5,), deviation=(0.5,), input_name="image"
)
PATIENCE = 300.0


def weights(number: int = 1, *names: ClassName) -> bytes:
    """Some model's file, another one for each number."""
    rows = names or (ANT, BEE)
    arrays, known = decode_weights(LGA.first_weights(OF), OF.network)
    wider = grown(arrays, known, rows, number)
    return encode_weights({n: np.asarray(v, np.float32) for n, v in wider.items()}, rows)


def payload(*labels: int, seed: int = 0, sets: int = 1) -> bytes:
    """Gradients of random pictures under these outputs, `sets` times."""
    every = labels * sets
    chance = torch.Generator().manual_seed(seed)
    side = OF.input_shape[1]
    found = OF.encoding.gradients(
        torch.rand(len(every), 1, side, side, generator=chance), torch.tensor(every)
    )
    return encode_gradients(
        [
            GradientSet({name: tensor[row] for name, tensor in found.items()}, 0.01)
            for row in range(len(every))
        ]
    )


def order(file: bytes, action: int = 10, number: int = 1, **changes: Any) -> ScoringOrder:
    """The order to score a model's file."""
    values: dict[str, Any] = {
        "action": action,
        "stage": 1,
        "round": number,
        "round_of_stage": number,
        "rounds_of_stage": 4,
        "method": "lga",
        "settings": OF.model_dump(mode="json"),
        "lineage": LINEAGE,
        "weights": BlockSource(file).offer,
        "class_names": (ANT, BEE),
        "preprocessing": PREPROCESSING,
        "seed": 7,
    }
    return ScoringOrder.model_validate(values | changes)


def gradients(data: bytes, number: int = 1, stage: int = 1, **changes: Any) -> PrototypeGradients:
    """The message that goes with a payload."""
    values: dict[str, Any] = {
        "key": PartKey(stage=stage, part=number),
        "method": "lga",
        "lineage": LINEAGE,
        "payload": Digest.of(data),
        "payload_bytes": len(data),
        "offer": BlockSource(data).offer if len(data) > INLINE_LIMIT else None,
    }
    return PrototypeGradients.model_validate(values | changes)


class Speaker:
    """Somebody scripted, with a connection, who remembers what came."""

    def __init__(self, broker: InMemoryBroker, name: DeviceId, *filters: str) -> None:
        self.name = name
        self.heard: list[Envelope] = []
        self.sender = Sender(FLEET, name, BootId.fresh())
        self.connection = broker.connection(f"{name}.test")
        self.connection.subscribe(*filters)
        self.connection.start()

    def say(
        self, topic: str, body: Message, attachment: bytes = b"", *, retain: bool = False
    ) -> None:
        sealed = self.sender.seal(body, sent_ms=0, attachment=attachment)
        self.connection.publish(OutgoingMessage(topic, encode(sealed), retain=retain))

    def listen(self) -> None:
        while (event := self.connection.next_event(0)) is not None:
            if isinstance(event, IncomingMessage):
                self.heard.append(decode(event.payload))
                self.connection.acknowledge(event)

    def bodies(self, kind: Any) -> list[Any]:
        self.listen()
        return [item.read(kind) for item in self.heard if item.header.kind == kind.kind]


class Device(Speaker):
    """Sends gradients; serves those that are too large for a message."""

    def __init__(self, broker: InMemoryBroker, name: DeviceId) -> None:
        super().__init__(broker, name, *BRANCH.to_device(name, "rcpt"))
        self.exchange = BlockExchange(
            broker.connection(f"{name}.blocks"),
            BRANCH,
            Sender(FLEET, name, BootId.fresh()),
            device=name,
        )

    def give(self, data: bytes, **changes: Any) -> PrototypeGradients:
        body = gradients(data, **changes)
        if body.offer is None:
            self.say(BRANCH.up(self.name, "msg"), body, data)
        else:
            self.exchange.serve(data)
            self.exchange.start()
            self.say(BRANCH.up(self.name, "msg"), body)
        return body

    @property
    def receipts(self) -> list[Receipt]:
        return self.bodies(Receipt)


class World:
    """A broker, a coordinator and two devices, all scripted, and a real proxy in a folder."""

    def __init__(self, home: Path, **limits: float) -> None:
        self.home = home
        self.home.mkdir()
        self.settings = ProxyHomeSettings(fleet=FLEET, limits=Limits(**limits))
        self.broker = InMemoryBroker()
        self.coordinator = Speaker(self.broker, COORDINATOR, *ORDINARY.from_every_device("msg"))
        self.files = BlockExchange(
            self.broker.connection("coordinator.blocks"),
            ORDINARY,
            Sender(FLEET, COORDINATOR, BootId.fresh()),
        )
        self.files.start()
        self.devices = {name: Device(self.broker, name) for name in (ONE, OTHER)}
        self.proxy: ProxyProgram | None = None
        self._runs = 0

    def start(self) -> None:
        self.proxy = build(self.home, self.settings, self._connect)
        self.proxy.begin()

    def kill(self) -> None:
        """End the proxy without a goodbye."""
        assert self.proxy is not None
        self.proxy.end()
        self.proxy = None

    def close(self) -> None:
        if self.proxy is not None:
            self.kill()
        self.files.stop()
        for device in self.devices.values():
            device.exchange.stop()

    def ask(self, file: bytes, **changes: Any) -> ScoringOrder:
        body = order(file, **changes)
        self.files.serve(file)
        self.coordinator.say(ORDINARY.down(PROXY, "assignment"), body, retain=True)
        return body

    def thank(self, body: ScoringOrder) -> None:
        key = PartKey(stage=body.stage, part=body.round)
        receipt = Receipt(about="scored", key=key, answer=Accepted(ledger_index=body.action + 1))
        self.coordinator.say(ORDINARY.down(PROXY, "rcpt"), receipt)

    @property
    def scores(self) -> list[Scored]:
        return self.coordinator.bodies(Scored)

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, "it did not come to that"
            assert self.proxy is not None
            self.proxy.step(0.02)

    def for_a_while(self, steps: int = 20) -> None:
        assert self.proxy is not None
        for _ in range(steps):
            self.proxy.step(0.01)

    def _connect(self, role: str) -> InMemoryConnection:
        return self.broker.connection(f"proxy.{role}")
