"""A coordinator, or a proxy, one of whose threads ends: the program ends too, with a sentence."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from fleetledger.coordinator.models.job_runner import Finished, ThreadJobRunner
from fleetledger.transport.errors import ThreadEndedError
from tests.threads_that_end import BREAKING, PATIENCE, assert_ended_with_a_sentence, run_broken


@pytest.mark.parametrize("thread", BREAKING)
def test_a_coordinator_does_not_outlive_a_thread_that_it_needs(tmp_path: Path, thread: str) -> None:
    (tmp_path / "coordinator.toml").write_text(
        'fleet = "mill"\n[broker]\nhost = "127.0.0.1"\nport = 9\n'
    )
    done = run_broken(BREAKING[thread], "coordinator", "serve", "--home", str(tmp_path))
    assert_ended_with_a_sentence(done, thread)


@pytest.mark.parametrize("thread", BREAKING)
def test_a_proxy_does_not_outlive_a_thread_that_it_needs(tmp_path: Path, thread: str) -> None:
    (tmp_path / "proxy.toml").write_text('fleet = "mill"\n[broker]\nhost = "127.0.0.1"\nport = 9\n')
    without_torch = (
        "import fleetledger.coordinator.proxy.program as program; program.find_spec = bool; "
    )
    breaking = without_torch + BREAKING[thread]
    done = run_broken(breaking, "coordinator", "proxy", "--home", str(tmp_path))
    assert_ended_with_a_sentence(done, thread)


@pytest.mark.parametrize("kind", ["payload_job", "model_job"])
def test_a_job_that_breaks_is_raised_to_whoever_takes_results(kind: str) -> None:
    told = threading.Event()
    job_runner = ThreadJobRunner(told.set)

    def job() -> Sequence[Finished]:
        raise OSError(28, "No space left on device")

    getattr(job_runner, kind)(job)
    assert told.wait(PATIENCE)
    with pytest.raises(ThreadEndedError, match="No space left"):
        job_runner.results()
    job_runner.stop()
