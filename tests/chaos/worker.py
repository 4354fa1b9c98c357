"""Work that is done at once: requests are answered when they are submitted."""

from __future__ import annotations

from collections.abc import Callable

from fleetledger.device_agent.core.inputs import Input
from fleetledger.device_agent.core.requests import Request
from fleetledger.device_agent.program.worker import Answer


class InlineWorker:
    """An agent's worker without a thread; `on_answer` is told when there is something to collect.

    It outlives the agent in memory, so that what comes while an agent rests is not lost.
    """

    __slots__ = ("_answer", "_inputs", "_on_answer")
    progress = None

    def __init__(self, answer: Answer, on_answer: Callable[[], None]) -> None:
        self._answer = answer
        self._on_answer = on_answer
        self._inputs: list[Input] = []

    def start(self) -> None:
        """Begin; there is nothing to begin."""

    def stop(self, seconds: float) -> None:
        """End; what was not collected is forgotten."""
        self._inputs.clear()

    def submit(self, request: Request) -> None:
        """Answer a request now."""
        for item in self._answer(request):
            self.put(item)

    def put(self, event: Input) -> None:
        """Add an input."""
        self._inputs.append(event)
        self._on_answer()

    def fail(self, error: Exception) -> None:
        """End the loop, in which everything is done."""
        raise error

    def collect(self) -> list[Input]:
        """Take the inputs so far."""
        taken, self._inputs = self._inputs, []
        return taken
