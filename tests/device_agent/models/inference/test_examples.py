"""The examples of the page on applications run as they stand."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.device_agent import model_files as models
from tests.device_agent.models.inference.homes import ServingHome
from tests.test_architecture import ROOT


def example(name: str, *words: str) -> list[str]:
    return [sys.executable, str(ROOT / "docs" / "examples" / name), *words]


def test_a_pipe_of_frames_is_answered_frame_by_frame(tmp_path: Path) -> None:
    home = ServingHome(tmp_path / "agent-home")
    home.switch(models.exported(1))
    picture = Image.open(io.BytesIO(models.picture("dark"))).convert("RGB")
    frames = [np.asarray(picture), 255 - np.asarray(picture)]
    command = example("pipe_of_frames.py", str(home.folder), *map(str, picture.size))
    told = subprocess.run(
        command,
        input=b"".join(frame.tobytes() for frame in frames) + b"half a frame",
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    assert [line.split()[0] for line in told.stdout.decode().splitlines()] == ["dark", "light"]


def test_gstreamer_fills_the_pipe(tmp_path: Path) -> None:
    """As the page has it, with GStreamer's test picture in the place of a camera."""
    if shutil.which("gst-launch-1.0") is None:
        pytest.skip("apt install gstreamer1.0-tools gstreamer1.0-plugins-base")
    home = ServingHome(tmp_path / "agent-home")
    home.switch(models.exported(1))
    line = (
        "gst-launch-1.0 -q videotestsrc num-buffers=3 ! videoconvert ! videoscale ! "
        "video/x-raw,format=RGB,width=64,height=48 ! fdsink fd=1"
    )
    with subprocess.Popen(line.split(), stdout=subprocess.PIPE) as source:
        told = subprocess.run(
            example("pipe_of_frames.py", str(home.folder), "64", "48"),
            stdin=source.stdout,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(ROOT / "src")},
            check=True,
        )
    lines = told.stdout.decode().splitlines()
    assert (source.returncode, len(lines), len(set(lines))) == (0, 3, 1)


def test_a_film_is_answered_frame_by_frame(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="pip install opencv-python-headless")
    home = ServingHome(tmp_path / "agent-home")
    home.switch(models.exported(1))
    picture = np.asarray(Image.open(io.BytesIO(models.picture("dark"))).convert("RGB"))
    frames = [
        np.asarray(Image.fromarray(shown).resize((64, 64))) for shown in (picture, 255 - picture)
    ]
    film = tmp_path / "film.avi"
    writer = cv2.VideoWriter(str(film), cv2.VideoWriter_fourcc(*"MJPG"), 5.0, (64, 64))
    for frame in frames:
        writer.write(frame[:, :, ::-1])
    writer.release()
    told = subprocess.run(
        example("opencv_frames.py", str(home.folder), str(film)),
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    assert [line.split()[0] for line in told.stdout.decode().splitlines()] == ["dark", "light"]


def test_the_watcher_follows_folder_and_model(tmp_path: Path) -> None:
    home, folder = ServingHome(tmp_path / "agent-home"), tmp_path / "pictures"
    folder.mkdir()
    home.switch(models.exported(1))
    command = example("watch_folder.py", str(home.folder), str(folder))
    environment = {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as process:
        try:
            for name, flipped, expected in (("a", False, "dark"), ("b", True, "light")):
                if flipped:
                    home.switch(models.exported(2, flipped=True))
                (tmp_path / name).write_bytes(models.picture("dark"))
                (tmp_path / name).replace(folder / f"{name}.png")
                assert process.stdout.readline().startswith(f"{name}.png {expected} ")
        finally:
            process.kill()
