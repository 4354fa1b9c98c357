"""A core that leads a network through rounds of several phases."""

from __future__ import annotations

from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import Digest
from tests.coordinator.core.harness import names, offer
from tests.coordinator.core.round_bench import NETWORK, RoundBench, averaged

TWO_PHASES = NETWORK.model_copy(update={"round_phases": ("train", "distil")})
SHARING = TWO_PHASES.model_copy(update={"opening_phases": ("share",)})


class PhaseBench(RoundBench):
    """Devices answer the open round; all but the last phase of a round pass the weights on."""

    @property
    def opened(self) -> RoundOpened:
        """The newest round."""
        *_, body = self.told(RoundOpened)
        assert isinstance(body, RoundOpened)
        return body

    def rounds(self) -> list[tuple[int, str, int | None]]:
        """Number, phase and what it follows, of all rounds."""
        bodies = self.told(RoundOpened)
        return [(b.number, b.phase, b.follows) for b in bodies if isinstance(b, RoundOpened)]

    def answers(
        self, *devices: str, number: int | None = None, phase: str | None = None
    ) -> Receipt:
        """Let devices answer the open round, or another; return the last receipt."""
        opened = self.opened
        number, phase = number or opened.number, phase or opened.phase
        for device in devices:
            answer = RoundAnswer(number=number, phase=phase, samples=3, steps=1, seconds=0)
            receipt = self.answer(device, number, f"{device} {number}", round=answer)
        return receipt

    def pass_on(self, request: AverageRound) -> list[Request]:
        """Answer as a worker whose method gives back the weights, and a file beside them."""
        opened = request.opened
        body = averaged(request).model_copy(
            update={
                "phase": opened.phase,
                "unchanged": True,
                "weights": opened.weights,
                "class_names": opened.weights_class_names,
                "extras": {**opened.extras, "ensemble": offer(f"ensemble {opened.number}")},
            }
        )
        return self.handle(body)

    def finish_phase(self, *devices: str) -> list[Request]:
        """Let devices answer, and a worker combine what they say; return what is asked then."""
        self.answers(*(devices or self.opened.cohort))
        self.wait(0 if len(devices or self.opened.cohort) == len(self.opened.cohort) else 100)
        request = self.asked_for(AverageRound)
        assert isinstance(request, AverageRound)
        last = request.opened.phase in {"distil", "fisher"}
        (self.average if last else self.pass_on)(request)
        return self.wait(0)


__all__ = ["SHARING", "TWO_PHASES", "Digest", "PhaseBench", "names", "offer"]
