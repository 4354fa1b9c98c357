"""A few hundred random lives of an agent, against a coordinator of twenty lines.

Images are added, moved and relabelled; messages are lost, doubled and late; the agent is killed or
reinstalled, and the coordinator restarted or restored from a backup. When all has come to rest, the
coordinator must hold every image on the disk exactly once, under its present class.
"""

import copy
import random
from collections import Counter
from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import Send, SendOutboxMessage
from fleetledger.schemas.contributions import Contribution, HeldPart, Withdrawal
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.values import BootId
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

CLASSES = ("cat", "dog")


class Ledger:
    """What a coordinator keeps: the newest revision of every part; None when withdrawn."""

    def __init__(self) -> None:
        self.parts: dict = {}
        self.size = 10

    def answer(self, message: SendOutboxMessage):
        body = message.body
        key = message.message.key
        if message.message.about == "nothing":
            return making.accepted("nothing", key)
        about, revision = message.message.about, body.revision
        known = self.parts.get(key)
        if known is not None and known[0] >= revision:
            same = known == (revision, body.payload if isinstance(body, Contribution) else None)
            answer = making.accepted if same else making.refused
            return answer(about, key, revision)
        if isinstance(body, Withdrawal) and known is None:
            return making.refused(about, key, revision)
        self.size += 1
        self.parts[key] = (revision, getattr(body, "payload", None))
        return making.accepted(about, key, revision)

    def welcome(self, boot: BootId):
        held = [
            HeldPart(key=key, revision=revision, payload=payload)
            for key, (revision, payload) in self.parts.items()
            if payload is not None
        ]
        next_part = max((key.part for key in self.parts), default=-1) + 1
        return making.welcome(boot, *held, next_part=next_part)


class World:
    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.path = path
        self.installations = 0
        self.reinstall()
        self.ledger = Ledger()
        self.backup = copy.deepcopy(self.ledger)
        self.boot = making.COORDINATOR
        self.payloads: dict = {}
        self.stage = 1
        self.loss = 0.3
        self.disk: dict[str, tuple[str, str]] = {}

    def reinstall(self) -> None:
        self.installations += 1
        self.agent = Driven(self.path / f"agent{self.installations}.db")

    def something_happens(self) -> None:
        match self.chance.randrange(12):
            case 0 | 1 | 2:
                name = f"i{len(self.disk)}"
                self.disk[name] = (self.chance.choice(CLASSES), name)
            case 3 if self.disk:
                name = self.chance.choice(list(self.disk))
                self.disk[name] = (self.chance.choice(CLASSES), self.disk[name][1])
            case 4 if self.disk:
                name = self.chance.choice(list(self.disk))
                self.disk[f"{name}moved"] = self.disk.pop(name)
            case 5:
                self.agent.kill()
                self.greet()
            case 6 if self.chance.random() < 0.2:
                self.reinstall()
                self.greet()
            case 7:
                self.boot = BootId.fresh()
                self.greet()
            case 8:
                self.backup = copy.deepcopy(self.ledger)
            case 9 if self.chance.random() < 0.2:
                self.ledger = copy.deepcopy(self.backup)
                self.boot = BootId.fresh()
                self.greet()
            case 10:
                self.stage += 1
                self.ledger.size += 1
                self.assign()
            case _:
                self.agent.wait(self.chance.random() * 100)
        self.work()

    def greet(self) -> None:
        self.agent.give(inputs.AgentConnected())
        born = making.born(self.ledger.size)
        self.agent.give(inputs.CoordinatorBorn(self.boot, born))
        self.assign()

    def assign(self) -> None:
        given = making.assignment(
            *CLASSES, action=self.ledger.size - 1, stage=self.stage, per_part=4
        )
        self.agent.give(inputs.Assigned(self.boot, given))
        self.agent.give(inputs.FetchFinished(given.frozen.digest))

    def work(self) -> None:
        """Scan, compute some, carry some messages."""
        self.agent.disk = dict(self.disk)
        self.agent.scan()
        while self.agent.job() is not None and self.chance.random() > self.loss:
            images = tuple((i.digest, str(i.class_name)) for i in self.agent.state.work.images)
            text = repr((self.agent.job(), images))
            self.payloads[making.digest(text)] = images
            self.agent.compute(text)
        self.carry()

    def carry(self) -> None:
        sent = self.agent.take(SendOutboxMessage)
        for message in sent + self.chance.sample(sent, len(sent) // 3):
            if self.chance.random() < self.loss:
                continue
            receipt = self.ledger.answer(message)
            if self.chance.random() >= self.loss:
                self.agent.receipt(receipt)
        for request in self.agent.take(Send):
            if isinstance(request.body, Birth) and self.chance.random() >= self.loss:
                welcome = self.ledger.welcome(self.agent.state.identity.boot)
                self.agent.give(inputs.Welcomed(self.boot, welcome))

    def come_to_rest(self) -> None:
        self.loss = 0.0
        self.greet()
        for _ in range(30):
            self.agent.wait(60)
            self.work()

    def held(self) -> Counter:
        return Counter(
            image
            for _, payload in self.ledger.parts.values()
            if payload is not None
            for image in self.payloads[payload]
        )


@pytest.mark.parametrize("seed", range(60))
def test_every_image_is_held_once_under_its_present_class(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    world.greet()
    for _ in range(40):
        world.something_happens()
    world.come_to_rest()
    on_disk = Counter((making.digest(text), label) for label, text in world.disk.values())
    assert world.held() == on_disk
    assert len(on_disk) > 3
    assert not world.agent.state.records.outbox
