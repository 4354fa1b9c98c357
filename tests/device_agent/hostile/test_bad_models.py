"""Models that hang, grow, answer nonsense, are slow or crash: tried elsewhere, refused in words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.errors import TrialError
from fleetledger.device_agent.home.memory import resident_bytes
from fleetledger.device_agent.models.trial.durations import MAX_RUNS, MIN_RUNS, Clocks, measure_runs
from fleetledger.device_agent.models.trial.messages import TrialAnswer
from fleetledger.device_agent.models.trial.trial import NOTICEABLE_SECONDS, judge
from fleetledger.device_agent.settings import ModelSettings
from tests.device_agent.hostile import bad_models
from tests.device_agent.hostile.place import Place, file_of, good, with_file

MIB = 1 << 20


def refused(place: Place, data: bytes) -> str:
    before = place.snapshot()
    event = place.install(with_file("frozen", data))
    assert isinstance(event, inputs.ModelRefused), event
    assert event.rolled_back
    assert place.snapshot() == before
    active = place.slots.active()
    assert active is not None
    assert active.version == 1
    return event.reason


def test_a_good_model_passes_and_is_compared_with_the_former_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.store(good())
    former = place.slots.active()
    assert former is not None
    answer = place.trial.run(good().manifest.digest, former.manifest, [])
    assert answer.provider == "CPUExecutionProvider"
    assert 0 < answer.seconds < 1
    assert answer.former_seconds is not None
    assert answer.runs >= MIN_RUNS


def test_a_model_that_never_answers_is_ended_by_the_clock(tmp_path: Path) -> None:
    place = Place(tmp_path, ModelSettings(trial_seconds=5.0, trial_memory_mib=256))
    reason = refused(place, bad_models.looping(bad_models.LONG, numbers=1 << 20))
    assert "it hangs, or this device is slow" in reason


def test_a_model_that_takes_all_memory_is_refused_and_the_agent_does_not_grow(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, ModelSettings(trial_seconds=60.0, trial_memory_mib=64))
    before = resident_bytes()
    reason = refused(place, bad_models.hungry(1 << 28))
    assert "alloc" in reason.lower()
    assert resident_bytes() - before < 32 * MIB


def test_a_model_that_answers_with_nan_is_refused(tmp_path: Path) -> None:
    reason = refused(Place(tmp_path), bad_models.adding(float("nan")))
    assert "features of the golden batch hold NaN or infinity" in reason


def test_a_network_that_takes_too_long_for_a_sample_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, ModelSettings(sample_seconds=0.001, trial_memory_mib=256))
    reason = refused(place, bad_models.looping(30_000))
    assert "ms for a sample; [model] sample_seconds in agent.toml allows 0.001 s" in reason


def test_another_network_may_be_many_times_as_slow_as_the_one_before(tmp_path: Path) -> None:
    place = Place(tmp_path)
    event = place.install(with_file("frozen", bad_models.looping(30_000)))
    assert isinstance(event, inputs.ModelInstalled), event


def child(program: str) -> tuple[str, ...]:
    """Return the command of a child that a model has taken over."""
    return (sys.executable, "-S", "-c", program)


CHILDREN = {
    "dies of signal 11": (
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "crashed the process that tried it: signal 11 (SIGSEGV)",
    ),
    "aborts": ("import os; os.abort()", "signal 6 (SIGABRT)"),
    "exits": ("import sys; sys.exit('oh no')", "exit code 1; it last said: oh no"),
    "says nothing": ("", "answered nonsense, b''"),
    "says garbage": ("print('\\0' * 99)", "answered nonsense"),
    "says another document": ("print('{\"refused\": 7}')", "answered nonsense"),
    "says yes and more": ("print('{}{}')", "answered nonsense"),
    "never stops talking": (
        "import sys\nwhile True: sys.stdout.write('x' * 65536)",
        "said more than 65536 bytes",
    ),
    "talks to standard error for ever": (
        "import sys\nwhile True: sys.stderr.write('x' * 65536)",
        "was not tried within",
    ),
    "closes its mouths and lives on": (
        "import os, time; os.close(1); os.close(2); time.sleep(60)",
        "was not tried within",
    ),
    "grows": ("import time; x = bytearray(b'x') * (700 << 20); time.sleep(60)", "MiB; at most"),
}


@pytest.mark.parametrize(("program", "words"), CHILDREN.values(), ids=CHILDREN)
def test_whatever_becomes_of_the_child_is_a_refusal_in_words(
    tmp_path: Path, program: str, words: str
) -> None:
    settings = ModelSettings(trial_seconds=1.0 if "within" in words else 60.0, trial_memory_mib=64)
    place = Place(tmp_path, settings, child(program))
    before = resident_bytes()
    assert words in refused(place, bad_models.adding(0.0))
    assert resident_bytes() - before < 32 * MIB


def test_the_child_is_given_no_secrets_and_no_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "swordfish")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "swordfish")
    program = (
        "import os, sys; fds = sorted(int(n) for n in os.listdir('/proc/self/fd'));"
        "sys.exit(f'{\"swordfish\" in str(os.environ)} {[n for n in fds if n > 3]} {os.getcwd()}')"
    )
    with (tmp_path / "open").open("wb"):
        reason = refused(Place(tmp_path, command=child(program)), file_of("frozen") + b"\x28\x01")
    assert reason.endswith("it last said: False [] /")


def test_a_command_that_is_not_there_is_a_refusal(tmp_path: Path) -> None:
    place = Place(tmp_path, command=(str(tmp_path / "nothing"),))
    assert "cannot be started: No such file" in refused(place, bad_models.adding(0.0))


class Machine:
    """Runs of given lengths on clocks of their own, each of which leaves memory behind."""

    def __init__(self, leaves: int = 0) -> None:
        self._now = self._used = 0.0
        self._resident = 100 * MIB
        self._leaves = leaves

    def run(self, seconds: float, processor: float | None = None) -> None:
        self._now += seconds
        self._used += seconds if processor is None else processor
        self._resident += self._leaves

    def wall(self) -> float:
        return self._now

    def memory(self) -> int:
        return self._resident

    def clocks(self) -> Clocks:
        return Clocks(self.wall, lambda: self._used)


def test_the_shortest_run_counts_and_both_models_run_in_turn() -> None:
    machine, new = Machine(), iter([0.4, 0.2, 0.3, 0.3, 0.3])
    measured = measure_runs(
        lambda: machine.run(next(new)), lambda: machine.run(0.1), machine.memory, machine.clocks()
    )
    assert measured.seconds == pytest.approx(0.2)
    assert measured.former_seconds == pytest.approx(0.1)
    assert measured.slower == pytest.approx(2.0)
    assert measured.runs == MIN_RUNS


def test_a_model_that_is_only_interrupted_is_not_slower() -> None:
    machine = Machine()
    measured = measure_runs(
        lambda: machine.run(0.5, processor=0.1),
        lambda: machine.run(0.1),
        machine.memory,
        machine.clocks(),
    )
    assert measured.slower == pytest.approx(1.0)


def test_where_a_gpu_computes_the_clock_on_the_wall_counts() -> None:
    machine = Machine()
    measured = measure_runs(
        lambda: machine.run(0.5, processor=0.1),
        lambda: machine.run(0.1),
        machine.memory,
        Clocks(machine.wall, None),
    )
    assert measured.slower == pytest.approx(5.0)


def test_memory_that_runs_leave_behind_is_a_leak() -> None:
    machine = Machine(leaves=5 * MIB)
    measured = measure_runs(lambda: machine.run(0.01), None, machine.memory, machine.clocks())
    assert measured.runs == MAX_RUNS
    with pytest.raises(TrialError, match="memory grew by 95 MiB in 20 runs of the model; it leaks"):
        judge(TrialAnswer(grown_bytes=measured.grown_bytes, runs=measured.runs), ModelSettings())


@pytest.mark.parametrize(
    ("seconds", "former", "too_slow"),
    [
        (0.3, 0.1, True),
        (0.24, 0.1, False),
        (0.26, 0.1, True),
        (0.9 * NOTICEABLE_SECONDS, 0.0001, False),
        (9.0, None, False),
    ],
)
def test_too_slow_is_more_than_a_multiple_that_somebody_notices(
    seconds: float, former: float | None, too_slow: bool
) -> None:
    slower = seconds / former if former is not None else None
    answer = TrialAnswer(seconds=seconds, former_seconds=former, slower=slower)
    if not too_slow:
        judge(answer, ModelSettings(slowdown=2.5))
        return
    with pytest.raises(TrialError, match="times as long as the former one of its lineage"):
        judge(answer, ModelSettings(slowdown=2.5))
