"""Drives the real rules over the real store, with a clock and a disk that tests set by hand."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from fleetledger.device_agent.core import inputs, requests
from fleetledger.device_agent.core.records import ActiveModel, Job
from fleetledger.device_agent.core.session import turn
from fleetledger.device_agent.core.state import AgentRules, AgentState, DeviceIdentity
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.schemas.contributions import Contribution, HeldPart, Nothing, Withdrawal
from fleetledger.schemas.message import Message
from fleetledger.schemas.proxy import PrototypeGradients
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import BootId, ClassName, Digest
from fleetledger.schemas.variants import VariantName
from tests.device_agent import making

_Request = TypeVar("_Request")


class Driven:
    """An agent without a shell: inputs in, requests out, everything durable in `path`."""

    time_ns = 0
    """The device's calendar when it starts; 0 where that does not matter."""
    slots: tuple[ActiveModel | None, ActiveModel | None] = (None, None)
    """What is active when it starts, and what is kept as candidate."""
    variant: VariantName | None = None
    """The variant that the active one runs on."""
    here: frozenset[Digest] = frozenset()
    """Files that lie there when it starts."""

    def __init__(self, path: Path, **rules: Any) -> None:
        self.path = path
        self.rules = AgentRules(**rules)
        self.now = 1000.0
        self.disk: dict[str, tuple[str, str]] = {}
        self.scenes: tuple[inputs.Image, ...] = ()
        self.requests: list[requests.Request] = []
        self.start()

    def start(self) -> None:
        """Start, or start again after a kill: only the store survives."""
        self.store = AgentStore(self.path)
        identity = DeviceIdentity(self.store.installation, BootId.fresh(), making.CAPABILITIES)
        self.state = AgentState(self.rules, identity, self.store.load())
        active, candidate = self.slots
        self.give(inputs.Started(active, self.here, self.time_ns, candidate, self.variant))

    def kill(self) -> None:
        self.store.close()
        self.start()

    def give(self, event: inputs.Input) -> list[requests.Request]:
        """Give one input; return the requests it led to, `WakeAt` left out."""
        new = [
            request
            for request in turn(self.state, event, self.now, self.store.commit)
            if not isinstance(request, requests.WakeAt)
        ]
        self.requests += new
        return new

    def wait(self, seconds: float) -> list[requests.Request]:
        self.now += seconds
        return self.give(inputs.Ticked())

    def connect(
        self,
        *parts: HeldPart,
        coordinator: BootId = making.COORDINATOR,
        ledger_size: int = 1000,
        next_part: int = 0,
    ) -> None:
        """Connect to a coordinator that holds `parts`, up to the end of its welcome."""
        self.give(inputs.AgentConnected())
        self.give(inputs.CoordinatorBorn(coordinator, making.born(ledger_size)))
        answer = making.welcome(self.state.identity.boot, *parts, next_part=next_part)
        self.give(inputs.Welcomed(coordinator, answer))

    def assign(self, *names: str, boot: BootId = making.COORDINATOR, **details: Any) -> None:
        """Give an assignment and the frozen file that it needs, then scan."""
        given = making.assignment(*names, **details)
        self.give(inputs.Assigned(boot, given))
        self.give(inputs.FetchFinished(given.frozen.digest))
        self.scan()

    def order(self, number: int = 1, action: int = 1, **details: Any) -> None:
        """Ask for a round: its assignment, its files, and a scan."""
        order = making.round_order(number, **details)
        self.give(inputs.Assigned(making.COORDINATOR, making.training(order, action)))
        for offer in (order.weights, *order.extras.values()):
            self.give(inputs.FetchFinished(offer.digest))
        self.scan()

    def train(self, payload: str = "weights", memory: str | None = None, **details: Any) -> None:
        """End the running training with a small payload; details of it or of its contribution."""
        job = self.state.training.job
        assert job is not None, "nothing is being trained"
        data = payload.encode()
        answer = RoundAnswer(number=job.key.part, samples=3, steps=2, seconds=0.5)
        contribution = Contribution(
            key=job.key,
            revision=0,
            payload_kind=details.pop("payload_kind", "weights"),
            method=job.method,
            lineage=job.lineage,
            payload=making.digest(payload),
            payload_bytes=len(data),
            offer=details.pop("offer", None),
            samples={ClassName("cat"): 3},
            round=details.pop("answer", answer),
        )
        remembered = making.digest(memory) if memory is not None else None
        event = inputs.TrainingFinished(job, contribution, remembered, attached=data)
        self.give(replace(event, **details))

    def look(self, memory: str | None = None, **seen: Any) -> None:
        """End the running look."""
        job = self.state.training.job
        assert job is not None, "nothing is being looked at"
        observation = making.observation(**seen)
        digest = making.digest(memory) if memory is not None else None
        self.give(inputs.NoveltyChecked(job, observation, digest))

    def put(self, **images: str) -> None:
        """Set what is on the disk: name to `class/content`."""
        self.disk = {name: tuple(value.split("/")) for name, value in images.items()}

    def scan(self, **details: Any) -> None:
        """Let the scans end that are under way, and one more."""
        images = tuple(
            inputs.Image(f"{label}/{name}", making.digest(content), ClassName(label))
            for name, (label, content) in sorted(self.disk.items())
        )
        images += self.scenes
        while True:
            self.now = max(self.now, self.state.scanning.due)
            self.give(inputs.Ticked())
            running = self.state.scanning.running
            if running:
                self.give(inputs.Scanned(images, **details))
            done_for, known = self.state.scanning.done_for, self.state.records.assignment
            if known is None or done_for == known.action:
                return

    def receipt_for_nothing(self, stage: int = 1) -> None:
        """Accept the `nothing` that an empty disk leads to."""
        self.receipt(making.accepted("nothing", making.part_key(stage)))

    def job(self) -> Job | None:
        return self.state.work.job

    def contents_of_job(self) -> Mapping[str, str]:
        """Path to class name of the images that the job is about."""
        return {image.path: str(image.class_name) for image in self.state.work.images}

    def compute(self, payload: str = "payload", unusable: tuple[str, ...] = ()) -> None:
        """End the running job with a small payload; `unusable` are contents that do not decode."""
        job = self.state.work.job
        assert job is not None, "nothing is being computed"
        bad = {making.digest(content) for content in unusable}
        digests = {image.digest for image in self.state.work.images}
        broken = tuple((item, "broken") for item in sorted(bad & digests))
        if not digests - bad:
            self.give(inputs.PartEmpty(job, broken))
            return
        data = payload.encode()
        counts = Counter(
            image.class_name for image in self.state.work.images if image.digest not in bad
        )
        contribution = Contribution(
            key=job.key,
            revision=job.revision,
            payload_kind="statistics",
            method=job.method,
            lineage=job.lineage,
            payload=making.digest(payload),
            payload_bytes=len(data),
            samples=dict(counts),
        )
        used = frozenset(digests - bad)
        self.give(inputs.PartComputed(job, contribution, used, broken, data))

    def receipt(self, receipt: Any) -> list[requests.Request]:
        return self.give(inputs.ReceiptArrived(receipt))

    def take(self, kind: type[_Request]) -> list[_Request]:
        """Return and forget the requests of one kind so far."""
        taken = [request for request in self.requests if isinstance(request, kind)]
        self.requests = [item for item in self.requests if not isinstance(item, kind)]
        return taken

    def fetch_all(self) -> list[Digest]:
        """Have every file come, which are asked for one by one; return their digests in order."""
        fetched = []
        while asked := self.take(requests.FetchFile):
            (request,) = asked
            fetched.append(request.offer.digest)
            self.give(inputs.FetchFinished(request.offer.digest))
        return fetched

    def sent(self, *kinds: type[Message]) -> list[Message]:
        """Return and forget the bodies of messages of some kinds."""
        bodies = [request.body for request in self.take(requests.SendOutboxMessage)]
        bodies += [request.body for request in self.take(requests.Send)]
        return [body for body in bodies if isinstance(body, kinds)]

    def messages(self) -> list[Message]:
        return self.sent(Contribution, Withdrawal, Nothing, PrototypeGradients)
