"""A device's agent that may end at any instant: the real one, with its files and its jobs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

from fleetledger.device_agent.core.requests import Request
from fleetledger.device_agent.core.state import AgentState
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program.assembly import AgentSurroundings, AssembledAgent, assemble
from fleetledger.device_agent.program.status import is_settled
from fleetledger.device_agent.program.worker import Answer
from fleetledger.schemas.values import BootId, DeviceId
from fleetledger.simulator.virtual.seeds import seeded_boot
from tests.chaos.checks import broken_files
from tests.chaos.crashable import Crashable, FaultyWorld
from tests.chaos.worker import InlineWorker


class SlowWorker(InlineWorker):
    """A worker that takes its time, so that anything may happen before it has done."""

    def __init__(
        self,
        answer: Answer,
        on_answer: Callable[[], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(answer, on_answer)
        self._later = later

    def submit(self, request: Request) -> None:
        """Answer a request later, after those before it."""
        answer_now = super().submit
        self._later(lambda: answer_now(request))


class CrashableAgent(Crashable):
    """The agent of one device; its home is made by whoever makes the fleet."""

    def __init__(self, world: FaultyWorld, home: AgentHome, *, replaceable: bool) -> None:
        """With `replaceable` its disk may be lost: its images are then counted in other parts."""
        super().__init__(world, home.settings.device, home.folder)
        self.home = home
        self.installations = 1
        """How often it was installed."""
        self._replaceable = replaceable
        self.broken: list[str] = []
        """What was found broken at its starts: a device always has a working model."""
        self._made: AssembledAgent | None = None
        self._had_model = False

    @property
    def device(self) -> DeviceId:
        """The device's name."""
        return self.home.settings.device

    def begin(self) -> None:
        """Put the agent together, and let it connect."""
        self._look_at_the_model()
        endpoint = self.endpoint(self._step)
        self._made = made = assemble(
            self.home,
            AgentSurroundings(
                connect=lambda role, will: self.connection(role, endpoint, will),
                exchange=lambda _, party: self.exchange(party),
                worker=lambda answer, on_answer, _: SlowWorker(
                    self._observed(answer), on_answer, lambda act: self.later("worker", act)
                ),
                clock=self.clock,
                boot=self._boot(self.runs),
                name_installation=lambda: self._boot(f"installation {self.installations}"),
                # For people; it is replaced every two seconds, and may be torn.
                tells_status=False,
                machine=None,
            ),
        )
        made.parts.exchange.start()
        made.agent.begin()
        endpoint.ask()

    def let_go(self) -> None:
        """Close the database."""
        if self._made is not None:
            self._made.parts.store.close()
        self._made = None

    def lose_disk(self) -> None:
        """Be installed anew, where that does not change what is learned."""
        if self._replaceable and self.home.state_folder.exists():
            self.world.tally["devices installed anew"] += 1
            shutil.rmtree(self.home.state_folder)
            self.installations += 1
            self._had_model = False

    @property
    def _state(self) -> AgentState | None:
        return self._made.parts.state if self._made is not None else None

    def settled(self, stage: int, version: int) -> bool:
        """Whether everything of a stage is counted and told, and a version of the model runs."""
        state = self._state
        if not self.on or state is None or state.models.installing:
            return False
        if not is_settled(_without_waiting(state)):
            return False
        assignment, active = state.records.assignment, state.models.active
        return (
            assignment is not None
            and assignment.stage == stage
            and active is not None
            and active.version == version
            and state.told.status
            and self._enrolled
        )

    @property
    def _enrolled(self) -> bool:
        """Whether no key waits to be confirmed."""
        keys = self._made.parts.keys if self._made is not None else None
        return keys is not None and keys.waiting is None

    def waits_for(self) -> str:
        """Say how far the agent is, for whoever waits in vain."""
        if not self.on or self._state is None:
            return f"{self.name} is off"
        state = self._state
        assignment, active = state.records.assignment, state.models.active
        fetching = state.files.fetching
        return (
            f"{self.name}: stage {assignment.stage if assignment else None}, "
            f"model {active.version if active else None}, {len(state.records.outbox)} messages, "
            f"fetches {fetching.digest.short if fetching else 'nothing'}, "
            f"{'settled' if is_settled(state) else 'not settled'}, "
            f"{'welcomed' if state.presence.welcomed else 'not welcomed'}"
        )

    def _step(self) -> float:
        made = self._made
        assert made is not None
        while made.agent.step(0):
            pass
        self._had_model |= made.parts.state.models.active is not None
        return made.agent.wake_at

    def _boot(self, what: object) -> BootId:
        return seeded_boot(self.world.troubles.seed, self.name, what)

    def _observed(self, answer: Answer) -> Answer:
        def observed(request: Request) -> tuple[object, ...]:
            self.world.points.point("work")
            inputs = answer(request)
            self.world.points.point("work")
            return inputs

        return observed  # type: ignore[return-value]

    def _look_at_the_model(self) -> None:
        folder = self.home.state_folder
        if not self._had_model:
            return
        if ModelSlots(folder / "slots").active() is None:
            self.broken.append(f"{self.name}: run {self.runs} begins without a model")
        self.broken += broken_files(self.device, folder)


def _without_waiting(state: AgentState) -> AgentState:
    """Leave out what waits for a cohort that nobody asks for yet: too few others have anything."""
    masking = state.records.masking
    if masking is None or masking.number is not None:
        return state
    return replace(state, records=replace(state.records, ready={}))
