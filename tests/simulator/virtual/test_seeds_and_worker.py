"""Names made from a seed, and work that is done at once."""

from __future__ import annotations

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.requests import Request, Scan
from fleetledger.simulator.virtual.seeds import seeded_boot, seeded_secret
from fleetledger.simulator.virtual.worker import InlineWorker


def test_names_follow_from_the_seed_and_what_they_name() -> None:
    assert seeded_boot(1, "device-1", 0, 1) == seeded_boot(1, "device-1", 0, 1)
    names = {seeded_boot(seed, name, run) for seed in (1, 2) for name in "ab" for run in (1, 2)}
    assert len(names) == 8
    assert len(seeded_secret(1, "device-1")) == 32
    assert seeded_secret(1, "device-1") != seeded_secret(2, "device-1")


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
