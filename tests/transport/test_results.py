"""Results of other threads reach the loop that takes them, in order, and failures with them."""

from __future__ import annotations

import threading

import pytest

from fleetledger.transport.errors import ThreadEndedError
from fleetledger.transport.results import JobQueue
from tests.threads_that_end import PATIENCE


def test_jobs_of_a_thread_are_done_in_order() -> None:
    woken = threading.Semaphore(0)
    jobs: JobQueue[int] = JobQueue(woken.release, "worker")
    for number in range(3):
        jobs.submit(lambda number=number: number)  # type: ignore[misc]
    for _ in range(3):
        assert woken.acquire(timeout=PATIENCE)
    assert jobs.collect() == [0, 1, 2]
    jobs.stop()


@pytest.mark.parametrize("thread", ["", "models"])
def test_a_job_that_breaks_is_raised_to_the_loop(thread: str) -> None:
    told = threading.Event()
    jobs: JobQueue[int] = JobQueue(told.set, "scoring", "scoring", "models")

    def job() -> int:
        raise OSError(28, "No space left on device")

    jobs.submit(job, thread)
    assert told.wait(PATIENCE)
    with pytest.raises(ThreadEndedError, match="No space left"):
        jobs.collect()
    jobs.stop()


def test_what_a_turn_leaves_is_taken_in_the_next_one() -> None:
    wakes: list[None] = []
    jobs: JobQueue[int] = JobQueue(lambda: wakes.append(None), "worker")
    for number in range(100):
        jobs.put(number)
    wakes.clear()
    first = jobs.collect()
    assert wakes, "nobody comes back for the rest"
    assert [*first, *jobs.collect()] == list(range(100))


def test_what_is_stopped_before_it_began_has_no_result() -> None:
    jobs: JobQueue[int] = JobQueue(lambda: None, "worker")
    begun, end = threading.Event(), threading.Event()

    def first() -> int:
        begun.set()
        assert end.wait(PATIENCE)
        return 1

    jobs.submit(first)
    jobs.submit(lambda: 2)
    assert begun.wait(PATIENCE)
    stopping = threading.Thread(target=jobs.stop)
    stopping.start()
    while stopping.is_alive():
        end.set()
        stopping.join(0.01)
    assert jobs.collect()[0] == 1
