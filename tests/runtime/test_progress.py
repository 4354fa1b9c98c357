"""Work that does not get on is told, and work that does is not, however long it takes."""

import threading
import time

from fleetledger.runtime.progress import HANGS_SECONDS, LONG_SECONDS, JobProgress, working_at


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_work_that_makes_steps_is_told_to_be_long_and_not_to_hang() -> None:
    clock = Clock()
    progress = JobProgress("agent", clock)
    with progress.working("scan of the data folder"):
        for number in range(20):
            working_at(f"cat/{number}.png")
            clock.now += HANGS_SECONDS / 2
            assert progress.hangs() == ""
        assert progress.describe() == "scan of the data folder for 10 min, at cat/19.png"
    assert progress.describe() == ""


def test_work_that_makes_no_step_is_told_with_what_it_is_at() -> None:
    clock = Clock()
    progress = JobProgress("agent", clock)
    with progress.working("scan of the data folder"):
        working_at("share/cat/1.png")
        clock.now += HANGS_SECONDS - 1
        assert progress.hangs() == ""
        clock.now += 1
        assert progress.hangs().startswith(
            "scan of the data folder does not get on at share/cat/1.png: look whether"
        )
        working_at("share/cat/2.png")
        assert progress.hangs() == ""
    assert progress.hangs() == ""


def test_a_step_without_a_job_is_nobodys() -> None:
    working_at("nowhere")


def test_short_work_is_not_told() -> None:
    clock = Clock()
    progress = JobProgress("agent", clock)
    with progress.working("counting"):
        clock.now += LONG_SECONDS - 1
        assert progress.describe() == ""


def test_training_gets_on_while_its_thread_computes_and_hangs_where_it_waits() -> None:
    clock = Clock()
    progress = JobProgress("agent", clock)
    computes, waits, ends = threading.Event(), threading.Event(), threading.Event()

    def train() -> None:
        with progress.working("training", by_processor=True):
            while not waits.is_set():
                computes.set()
            ends.wait(60)

    thread = threading.Thread(target=train)
    thread.start()
    computes.wait(60)
    clock.now += 2 * HANGS_SECONDS
    assert progress.hangs() == ""
    waits.set()
    while progress.hangs() == "":  # until its last turn is counted, and its wait has begun
        clock.now += HANGS_SECONDS
        time.sleep(0.01)
    assert progress.hangs().startswith("training does not get on")
    ends.set()
    thread.join()
