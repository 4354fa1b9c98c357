"""Work that is done at once."""

from __future__ import annotations

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import Request, Scan
from tests.chaos.worker import InlineWorker


def test_a_request_is_answered_when_it_is_submitted() -> None:
    told: list[str] = []

    def answer(request: Request) -> tuple[inputs.Input, ...]:
        assert isinstance(request, Scan)
        return (inputs.Scanned(()),)

    worker = InlineWorker(answer, lambda: told.append("there is something"))
    worker.submit(Scan())
    worker.put(inputs.EvaluationAsked())
    assert told == ["there is something"] * 2
    assert worker.collect() == [inputs.Scanned(()), inputs.EvaluationAsked()]
    assert worker.collect() == []
