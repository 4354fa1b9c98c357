"""An interruption waits until a child is started, and is not lost."""

import signal
from threading import Thread

import pytest

from fleetledger.transport.brokers.lifeline import interrupted_later


def test_what_interrupts_is_raised_when_the_block_is_over():
    done = []

    def start() -> None:
        with interrupted_later():
            signal.raise_signal(signal.SIGINT)
            done.append("the child is started")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_handlers_are_as_before():
    former = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interrupted_later():
        assert signal.getsignal(signal.SIGINT) not in former
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == former


def test_other_threads_are_never_interrupted_and_may_use_it():
    done = []

    def start() -> None:
        with interrupted_later():
            done.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=start)
    thread.start()
    thread.join()
    assert done == [signal.getsignal(signal.SIGINT)]
