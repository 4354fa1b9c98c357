"""An application runs an agent in its own process, gives it samples, and reads how it is."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.apps.embedded.agent import Agent
from fleetledger.device_agent.apps.embedded.given import GivenSample
from fleetledger.device_agent.errors import AgentEndedError, GiveError, HomeError, NoModelError
from fleetledger.device_agent.home.home import AgentHome, NewHome, write_home
from fleetledger.device_agent.home.status_file import read_status
from fleetledger.device_agent.program.assembly import AgentSurroundings
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.runtime.waiting import WaitTimeoutError
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.values import DeviceId, Digest, FleetId
from fleetledger.transport.interface import Connection, OutgoingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import model_files as models
from tests.device_agent.scripted import (
    DEVICE,
    FAST,
    FLEET,
    SECONDS,
    ScriptedCoordinator,
    greet,
    stsa_assignment,
    write_settings,
)
from tests.rooms import ROOT


@pytest.fixture
def home(home: Path) -> Path:
    write_settings(home)
    return home


@pytest.fixture
def agent(broker: InMemoryBroker, home: Path) -> Agent:
    return on_memory(broker, home)


def on_memory(broker: InMemoryBroker, home: Path) -> Agent:
    made = Agent(home)
    device = AgentHome.open(home).settings.device

    def around(_: AgentHome) -> AgentSurroundings:
        def connect(role: str, will: OutgoingMessage | None) -> Connection:
            return broker.connection(f"{device}.{role}", user=str(device), will=will)

        return AgentSurroundings(connect, rules=FAST)

    made.surroundings = around
    return made


def frame(level: int = 20) -> np.ndarray:
    return np.full((6, 8, 3), level, np.uint8)


def files(home: Path) -> list[str]:
    folder = AgentHome.open(home).data_folder
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_sample_is_a_file_of_its_class_and_counted_once(agent: Agent, home: Path) -> None:
    before = files(home)
    with agent:
        first = agent.give(frame(), "apple")
        again = agent.give(Image.fromarray(frame()), "apple")
    assert (first.new, again) == (True, GivenSample(first.digest, new=False))
    (name,) = set(files(home)) - set(before)
    assert name == f"apple/{first.digest}.png"
    written = (AgentHome.open(home).data_folder / name).read_bytes()
    assert Digest.of(written) == first.digest
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(written))), frame())


def test_files_are_given_as_they_are(agent: Agent, tmp_path: Path) -> None:
    picture = tmp_path / "a.jpg"
    Image.fromarray(frame(90)).save(picture, "JPEG")
    with agent:
        by_path = agent.give(picture, "apple")
        by_content = agent.give(picture.read_bytes(), "apple")
        assert by_path == GivenSample(Digest.of(picture.read_bytes()), new=True)
        assert by_content == GivenSample(by_path.digest, new=False)


@pytest.mark.parametrize(
    ("sample", "label", "fault"),
    [
        (frame(), "a/b", "label: 'a/b' is no name of a class; give 1 to 100 characters"),
        (frame(), ".git", "label: '.git' is no name of a class"),
        (frame(), "lost+found", "label: 'lost.found' is a folder of a system"),
        (frame(), "a\u200bb", "label: .* nobody sees"),
        (frame().astype(np.float32), "apple", "sample: frame: float32 of shape"),
        (b"no picture", "apple", "sample: image: 10 bytes are no picture"),
        ("nowhere.png", "apple", "sample: nowhere.png: cannot be read"),
        (
            7,
            "apple",
            "sample: int is none where data.samples is .pictures.; give an array of uint8",
        ),
    ],
)
def test_what_is_no_sample_is_refused_before_it_is_written(
    agent: Agent, home: Path, sample: object, label: str, fault: str
) -> None:
    before = files(home)
    with agent, pytest.raises(GiveError, match=fault):
        agent.give(sample, label)  # type: ignore[arg-type]
    assert files(home) == before


def test_a_sample_of_another_class_is_refused(agent: Agent) -> None:
    with agent:
        agent.give(frame(), "apple")
        with pytest.raises(GiveError, match=r"apple/.*png is the same under another class"):
            agent.give(frame(), "pear")


def test_texts_are_given_as_str(agent: Agent, home: Path) -> None:
    write_settings(home, samples="text")
    with agent:
        given = agent.give("red and round", "apple")
        assert agent.give("red and round", "apple") == GivenSample(given.digest, new=False)
        with pytest.raises(GiveError, match=r"sample: byte 0 is no UTF-8"):
            agent.give(b"\xff", "apple")
    assert given.digest == Digest.of(b"red and round")


def test_arrays_are_given_as_they_are_counted(agent: Agent, home: Path, tmp_path: Path) -> None:
    write_settings(home, samples="array")
    window = np.arange(12, dtype=np.float64).reshape(3, 4)
    np.save(tmp_path / "window.npy", window)
    with agent:
        given = agent.give(window, "walk")
        assert agent.give(tmp_path / "window.npy", "walk") == GivenSample(given.digest, new=False)
        agent.wait(lambda status: status.images_on_disk == 1, timeout=SECONDS)
        assert given.digest in agent._began.result()[1].state.scanning.images
        with pytest.raises(GiveError, match=r"sample: str is none|cannot be read"):
            agent.give("walk.npy", "walk")
    written = np.load(AgentHome.open(home).data_folder / "walk" / f"{given.digest}.npy")
    assert np.array_equal(written, window.astype(np.float32))


def test_an_array_of_another_shape_is_refused(agent: Agent, home: Path) -> None:
    write_settings(home, samples="array")
    settings = home / "agent.toml"
    text = settings.read_text(encoding="utf-8").replace("[data]\n", "[data]\nshape = [3, 4]\n")
    settings.write_text(text, encoding="utf-8")
    with agent:
        assert agent.give(np.zeros((3, 4), np.float32), "walk").new
        with pytest.raises(GiveError, match=r"shape \[2, 3, 4\], where data\.shape is \[3, 4\]"):
            agent.give(np.zeros((2, 3, 4), np.float32), "walk")


def test_a_sample_reaches_the_coordinator_and_a_model_comes_back(
    agent: Agent, coordinator: ScriptedCoordinator
) -> None:
    with agent:
        with pytest.raises(NoModelError):
            agent.model.classify(frame())
        given = [agent.give(models.picture("dark", 70 + number), "dark") for number in range(3)]
        agent.wait(lambda status: status.images_on_disk == 8, timeout=SECONDS)
        greet(coordinator)
        coordinator.assign(stsa_assignment()[0])
        body, envelope = coordinator.wait_for(Contribution)
        assert body.samples == {"dark": 6, "light": 2}
        with pytest.raises(WaitTimeoutError, match="receipts, which 3 of 3 samples lack"):
            agent.wait(received=given, timeout=0.0)
        coordinator.accept(envelope)
        assert agent.wait(received=given, timeout=SECONDS).parts == {"accepted": 1}
        assert agent.give(models.picture("dark", 70), "dark") == GivenSample(
            given[0].digest, new=False
        )
        good = models.exported(1)
        desired = models.desired_of(good.manifest, good, action=7)
        coordinator.desire(desired, good.manifest.canonical_bytes(), *good.files.values())
        agent.wait(version=1, timeout=SECONDS)
        assert agent.model.classify(models.picture("dark")).name == "dark"
        assert agent.status().active_version == 1
    with pytest.raises(AgentEndedError, match="was stopped"):
        agent.status()


def test_a_wait_that_ends_says_how_things_stand(
    agent: Agent, coordinator: ScriptedCoordinator
) -> None:
    with agent:
        greet(coordinator)
        coordinator.assign(stsa_assignment()[0])
        given = agent.give(frame(), "kiwi")
        agent.wait(lambda status: "kiwi" in status.waiting_classes, timeout=SECONDS)
        with pytest.raises(WaitTimeoutError) as caught:
            agent.wait(received=given, version=4, timeout=0.0)
    text = str(caught.value)
    assert "waited 0 s for model version 4 and receipts, which 1 of 1 sample lack; " in text
    assert "hears its coordinator, runs no model, knows stage 1 and has 6 samples" in text
    assert "classes that no stage has: kiwi" in text


def test_a_wait_for_nothing_is_refused(agent: Agent) -> None:
    with agent, pytest.raises(ValueError, match="nothing is named"):
        agent.wait()


def test_nothing_of_the_process_changes(agent: Agent) -> None:
    def state() -> list[object]:
        root = logging.getLogger()
        handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
        umask = os.umask(0o022)
        os.umask(umask)
        environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        freezing = (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())
        told = (root.level, list(root.handlers), logging.getLogger("device_agent").handlers[:])
        return [handlers, umask, environment, freezing, told, Path.cwd(), sys.excepthook]

    before = state()
    with agent:
        agent.give(frame(), "apple")
        agent.wait(lambda status: status.images_on_disk > 0, timeout=SECONDS)
        assert state() == before
    assert state() == before


def test_threads_end_with_the_block(agent: Agent) -> None:
    before = set(threading.enumerate())
    with agent:
        agent.status()
    assert set(threading.enumerate()) <= before


def test_an_agent_runs_in_another_thread_and_beside_an_event_loop(
    broker: InMemoryBroker, home: Path
) -> None:
    async def application() -> GivenSample:
        with on_memory(broker, home) as agent:
            return await asyncio.to_thread(agent.give, frame(), "apple")

    found: list[GivenSample] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(application())))
    thread.start()
    thread.join(SECONDS)
    assert [given.new for given in found] == [True]


def test_several_homes_have_agents_in_one_process(
    broker: InMemoryBroker, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    write_home(other, NewHome(device=DeviceId("other"), fleet=FLEET))
    with on_memory(broker, home) as one, on_memory(broker, other) as two:
        one.give(frame(), "apple")
        two.give(frame(), "apple")
        connected = [agent.wait(lambda status: status.connected) for agent in (one, two)]
    assert [status.device for status in connected] == [DEVICE, "other"]
    assert len(files(other)) == 1


def test_two_agents_on_one_home_are_refused(
    agent: Agent, broker: InMemoryBroker, home: Path
) -> None:
    with agent:
        with pytest.raises(HomeError, match="another agent runs here"), on_memory(broker, home):
            pass
        assert agent.give(frame(), "apple").new
    with on_memory(broker, home) as after:  # the lock went with the block
        assert not after.give(frame(), "apple").new
    with pytest.raises(AgentEndedError, match="was begun already"), agent:
        pass


def test_what_keeps_it_from_its_start_is_raised(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"agent\.toml"), Agent(tmp_path / "nowhere"):
        pass
    with pytest.raises(AgentEndedError, match="was not begun; call it inside `with`"):
        Agent(tmp_path / "nowhere").give(frame(), "apple")


def break_down(agent: Agent) -> None:
    """Have a thread of the agent end by an error, and wait until the agent has ended by it."""
    agent._began.result()[1].worker.fail(OSError("broken wire"))
    assert agent._ended.wait(SECONDS)


def use_broken(agent: Agent) -> None:
    with agent:
        agent.wait(lambda status: status.connected, timeout=SECONDS)
        break_down(agent)
        with pytest.raises(AgentEndedError, match="broken wire"):
            agent.give(frame(), "apple")
        with pytest.raises(AgentEndedError, match="broken wire"):
            agent.status()


def test_an_error_of_its_threads_reaches_the_application(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AgentEndedError, match=r"has ended by an error: .*broken wire") as caught:
        use_broken(agent)
    assert isinstance(caught.value.__cause__, OSError)
    assert "has ended by an error" in caplog.text


def fail_beside(agent: Agent) -> None:
    with agent:
        break_down(agent)
        raise KeyError("mine")


def test_an_error_of_the_application_goes_on(agent: Agent) -> None:
    with pytest.raises(KeyError, match="mine"):
        fail_beside(agent)


def test_a_forked_process_is_refused(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    with agent:
        monkeypatch.setattr(agent, "_process", 1)
        with pytest.raises(AgentEndedError, match="is of process 1, from which this one was"):
            agent.give(frame(), "apple")
        monkeypatch.undo()


_APPLICATION = """
import os, sys
import numpy as np
import fleetledger as fl

def frames():
    for number in range(1000):
        yield np.full((6, 8, 3), number % 256, np.uint8) + np.uint8(number // 256)

agent = fl.Agent(sys.argv[1])
agent.__enter__()
for number, frame in enumerate(frames()):
    given = agent.give(frame, "apple")
    print(given.digest, flush=True)
    {then}
"""


def _run(home: Path, then: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _APPLICATION.replace("{then}", then), str(home)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@pytest.fixture
def unreachable(tmp_path: Path) -> Path:
    """A home whose broker nobody has started."""
    folder = tmp_path / "agent-home"
    write_home(folder, NewHome(device=DeviceId("cam"), fleet=FleetId("f"), port=1))
    return folder


def test_what_was_given_outlives_a_kill(unreachable: Path) -> None:
    ended = _run(unreachable, "number < 9 or os.kill(os.getpid(), 9)")
    given = ended.stdout.split()
    assert (ended.returncode, len(given)) == (-signal.SIGKILL, 10)
    assert {Path(name).stem for name in files(unreachable)} == set(given)
    with Agent(unreachable) as agent:
        assert agent.wait(lambda status: status.images_on_disk == 10, timeout=SECONDS)


def test_it_stops_at_the_end_of_the_interpreter(unreachable: Path) -> None:
    ended = _run(unreachable, "if number: sys.exit(7)")
    assert ended.returncode == 7
    assert "Traceback" not in ended.stderr
    status = read_status(AgentHome.open(unreachable).status_file)
    assert status is not None
    assert status.ended == "stopped"
