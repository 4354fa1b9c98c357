"""The inbox keeps what the model doubts, within its bounds, whoever offers it and however fast."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.home.home import AgentHome, NewHome, write_home
from fleetledger.device_agent.models.inbox.inbox import DoubtInbox, inbox_of
from fleetledger.device_agent.settings import InboxSettings
from tests.device_agent.models.inbox.doubting import LIMITS, scene


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def names(inbox: DoubtInbox) -> list[str]:
    return sorted(image.guess for image in inbox.waiting())


def test_a_doubted_image_is_kept_with_what_was_said_of_it(tmp_path):
    inbox = DoubtInbox(tmp_path / "inbox", LIMITS, Clock())
    assert inbox.offer(scene(0), 0.8, "fox", 3) == "kept"
    (image,) = DoubtInbox(tmp_path / "inbox", LIMITS).waiting()
    assert (image.doubt, image.guess, image.version, image.time) == (0.8, "fox", 3, 1_000_000.0)
    file = tmp_path / "inbox" / image.file_name
    assert np.array_equal(np.array(Image.open(file)), scene(0))
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("doubt", [0.0, 0.49, float("nan")])
def test_what_the_model_is_sure_of_touches_no_disk(tmp_path, doubt):
    inbox = DoubtInbox(tmp_path / "inbox", LIMITS)
    assert inbox.offer(scene(0), doubt, "fox", 1) == "sure"
    assert not (tmp_path / "inbox").exists()


def test_a_camera_that_shows_one_scene_fills_nothing(tmp_path):
    clock = Clock()
    inbox = DoubtInbox(tmp_path / "inbox", InboxSettings(), clock)
    rng = np.random.default_rng(1)
    outcomes = []
    for _ in range(30 * 40):
        clock.now += 1 / 30
        noise = rng.integers(-3, 4, (64, 64, 3))
        frame = np.clip(scene(0).astype(int) + noise, 0, 255).astype(np.uint8)
        outcomes.append(inbox.offer(frame, 0.9, "fox", 1))
    assert outcomes.count("kept") == 1
    assert {"soon", "alike"} <= set(outcomes)


def test_scenes_that_change_come_in_one_an_interval(tmp_path):
    clock = Clock()
    inbox = DoubtInbox(tmp_path / "inbox", InboxSettings(interval_seconds=10), clock)
    kept = 0
    for second in range(40):
        clock.now += 1
        kept += inbox.offer(scene(second), 0.9, "fox", 1) == "kept"
    assert kept == 4


def test_of_a_full_inbox_that_goes_which_is_doubted_least(tmp_path):
    inbox = DoubtInbox(tmp_path / "inbox", InboxSettings(interval_seconds=0, images=2))
    assert inbox.offer(scene(0), 0.6, "a", 1) == "kept"
    assert inbox.offer(scene(1), 0.7, "b", 1) == "kept"
    assert inbox.offer(scene(2), 0.55, "c", 1) == "full"
    assert inbox.offer(scene(3), 0.9, "d", 1) == "kept"
    assert names(inbox) == ["b", "d"]
    assert len([path for path in inbox.folder.iterdir() if path.name != "lock"]) == 4


def test_bytes_are_bounded(tmp_path):
    inbox = DoubtInbox(tmp_path / "inbox", InboxSettings(interval_seconds=0, megabytes=1))
    rng = np.random.default_rng(0)
    for number in range(8):
        frame = rng.integers(0, 256, (250, 250, 3), dtype=np.uint8)
        assert inbox.offer(frame, 0.6 + number / 100, "a", 1) == "kept"
    files = [path for path in inbox.folder.iterdir() if path.suffix == ".png"]
    assert sum(path.stat().st_size for path in files) <= 1 << 20
    assert len(files) == 5


def test_what_waited_too_long_goes_with_the_next_that_comes(tmp_path):
    clock = Clock()
    limits = InboxSettings(interval_seconds=0, days=100 / 86_400)
    inbox = DoubtInbox(tmp_path / "inbox", limits, clock)
    inbox.offer(scene(0), 0.9, "old", 1)
    clock.now += 101
    assert inbox.offer(scene(1), 0.6, "new", 1) == "kept"
    assert names(inbox) == ["new"]


def test_a_clock_that_was_set_back_holds_nothing_up(tmp_path):
    clock = Clock()
    inbox = DoubtInbox(tmp_path / "inbox", InboxSettings(), clock)
    inbox.offer(scene(0), 0.9, "a", 1)
    clock.now -= 5000
    assert inbox.offer(scene(1), 0.9, "b", 1) == "kept"


def test_what_a_crash_left_is_not_shown_and_goes(tmp_path):
    inbox = DoubtInbox(tmp_path / "inbox", LIMITS)
    inbox.offer(scene(0), 0.9, "a", 1)
    (inbox.folder / f"{'0' * 64}.png").write_bytes(b"no text came")
    (inbox.folder / f"{'1' * 64}.json.new").write_bytes(b"{")
    (inbox.folder / f"{'2' * 64}.json").write_bytes(b"{}")
    assert names(inbox) == ["a"]
    inbox.offer(scene(1), 0.9, "b", 1)
    assert names(inbox) == ["a", "b"]
    assert len([path for path in inbox.folder.iterdir() if path.name != "lock"]) == 4


def _offer_many(folder: Path, first: int) -> list[str]:
    inbox = DoubtInbox(folder, InboxSettings(interval_seconds=0, images=5))
    return [inbox.offer(scene(first + number), 0.9, str(first), 1) for number in range(10)]


def test_several_processes_keep_to_the_bounds_together(tmp_path):
    with ProcessPoolExecutor(3) as pool:
        told = list(pool.map(_offer_many, [tmp_path] * 3, [0, 100, 200]))
    assert {"kept"} <= {outcome for outcomes in told for outcome in outcomes}
    assert len(DoubtInbox(tmp_path, LIMITS).waiting()) == 5
    texts = [json.loads(path.read_bytes()) for path in tmp_path.glob("*.json")]
    assert all((tmp_path / f"{text['digest']}{text['suffix']}").is_file() for text in texts)


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "inbox").write_text("a file")
    with pytest.raises(StoreError, match="doubted images cannot be kept"):
        DoubtInbox(tmp_path / "inbox", LIMITS).offer(scene(0), 0.9, "a", 1)


def test_nothing_is_kept_unless_the_owner_says_so(tmp_path):
    file = write_home(tmp_path, NewHome("cam-1", "fleet"))
    assert inbox_of(AgentHome.open(tmp_path)) is None
    file.write_text(file.read_text().replace("keep = false", "keep = true"))
    assert inbox_of(AgentHome.open(tmp_path)) is not None


HOLDER = """
import sys
from pathlib import Path
from fleetledger.device_agent.models.inbox.inbox import DoubtInbox
from tests.device_agent.models.inbox.doubting import LIMITS
with DoubtInbox(Path(sys.argv[1]), LIMITS)._alone():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_process_that_stopped_while_it_held_the_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fleetledger.device_agent.models.inbox.inbox._TURN_SECONDS", 0.2)
    inbox = DoubtInbox(tmp_path / "inbox", LIMITS, Clock())
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "inbox")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreError, match=f"process {holder.pid} has held the doubted im"):
                inbox.offer(scene(0), 0.8, "fox", 3)
        finally:
            os.kill(holder.pid, signal.SIGCONT)
            holder.communicate("")
    assert inbox.offer(scene(0), 0.8, "fox", 3) == "kept"
