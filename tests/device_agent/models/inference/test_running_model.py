"""Each frame of an application is answered by one version, whatever the agent does meanwhile."""

import io
import logging
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fleetledger
from fleetledger.device_agent.errors import LoadError, ModelError, NoModelError
from fleetledger.device_agent.models.inference.frames import input_of
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.entropy import relative_entropy, softmax
from tests.device_agent import model_files as models
from tests.device_agent.models.inference.homes import ServingHome
from tests.device_agent.models.scenes import dense
from tests.test_architecture import ROOT

APPLICATION = """
import sys
import fleetledger

with fleetledger.active_model(sys.argv[1]) as model:
    for line in sys.stdin:
        answer = model.classify(line.strip())
        print(answer.version, answer.name, answer.score, answer.doubt, flush=True)
"""
FRAMES, WAITING = 1000, 20
"""Frames of a run, and how many of them wait for the application at a time."""


def dark() -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(models.picture("dark"))))


def exported(version: int) -> models.ExportedModel:
    """Odd versions say `dark` of a dark picture, even ones `light`."""
    return models.exported(version, flipped=version % 2 == 0)


@pytest.fixture
def home(tmp_path: Path) -> ServingHome:
    made = ServingHome(tmp_path / "agent-home")
    made.switch(exported(1))
    return made


def test_an_application_lives_through_five_switches(home: ServingHome, tmp_path: Path) -> None:
    frame = tmp_path / "dark.png"
    frame.write_bytes(models.picture("dark"))
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", APPLICATION, str(home.folder)]
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT
    ) as process:
        process.stdin.write(f"{frame}\n" * WAITING)
        process.stdin.flush()
        for line in process.stdout:
            lines.append(line)
            if len(lines) + WAITING <= FRAMES:
                process.stdin.write(f"{frame}\n")
                process.stdin.flush()
            elif not process.stdin.closed:
                process.stdin.close()
            if len(lines) % 150 == 0 and len(lines) <= 750:
                home.switch(exported(len(lines) // 150 + 1))
        told = process.stderr.read()
    assert (process.returncode, told, len(lines)) == (0, "", FRAMES)
    answers = [line.split() for line in lines]
    versions = [int(version) for version, *_ in answers]
    assert versions == sorted(versions)
    assert set(versions) == {1, 2, 3, 4, 5, 6}
    for version, name, *_ in answers:
        assert name == ("dark" if int(version) % 2 else "light")
    assert len({tuple(answer) for answer in answers}) == 6, "a version has one answer"


def test_a_switch_is_short(home: ServingHome, capsys: pytest.CaptureFixture[str]) -> None:
    frame, seconds = dark(), []
    with fleetledger.active_model(home.folder) as model:
        for version in range(2, 42):
            home.switch(exported(version))
            began = time.perf_counter()
            assert model.classify(frame).version == version
            seconds.append(time.perf_counter() - began)
    p95 = statistics.quantiles(seconds, n=20)[-1]
    with capsys.disabled():
        print(  # noqa: T201
            f"\nthe call that switches: p95 {1e3 * p95:.1f} ms of {len(seconds)} switches"
        )


def test_threads_see_whole_versions(home: ServingHome) -> None:
    frame, wrong = dark(), []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answer = model.classify(frame)
            if answer.name != ("dark" if answer.version % 2 else "light"):
                wrong.append(answer)

    with fleetledger.active_model(home.folder) as model:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for version in range(2, 12):
            home.switch(exported(version))
            while model.version != version:
                pass
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong
    home.published.follow()
    assert len(home.folders()) == 2, "no lease is left"


def test_every_kind_of_frame_gets_the_same_answer(home: ServingHome, tmp_path: Path) -> None:
    data, file = models.picture("dark"), tmp_path / "dark.png"
    file.write_bytes(data)
    grey = dark()
    frames = [grey, grey[:, :, np.newaxis], np.stack([grey] * 3, axis=-1), data, file, str(file)]
    frames.append(Image.open(io.BytesIO(data)))
    with fleetledger.active_model(home.folder) as model:
        answers = model.classify_all(frames)
        assert len(set(answers)) == 1
        assert model.classify(data) == answers[0]
        assert model.classify_all([]) == []
    (answer,) = set(answers)
    assert answer.names == ("dark", "light")
    assert sum(answer.scores) == pytest.approx(1)


def test_doubt_is_what_detection_measures(home: ServingHome) -> None:
    even = np.full((8, 8), 90, np.uint8)
    with fleetledger.active_model(home.folder) as model:
        sure, unsure = model.classify(dark()), model.classify(even)
    assert unsure.doubt == pytest.approx(1.0)
    assert sure.doubt < unsure.doubt
    assert sure.doubt == pytest.approx(float(relative_entropy(np.array([sure.scores]))[0]))


def test_features_come_with_their_lineage(home: ServingHome) -> None:
    with fleetledger.active_model(home.folder) as model:
        found = model.embed(dark())
        assert (found.features.shape, found.version) == ((64,), 1)
        assert found.lineage == model.manifest.lineage
        with pytest.raises(LoadError, match="gives samples a class as a whole: use classify"):
            model.segment(dark())


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (np.zeros((8, 8), np.float32), "float32 of shape"),
        (np.zeros((8, 8, 2), np.uint8), "give uint8 of shape"),
        (np.zeros((0, 8), np.uint8), "give uint8 of shape"),
        (b"no picture", "no picture that can be read"),
        ("nowhere.png", "cannot be read"),
    ],
)
def test_a_frame_that_is_none_is_told_in_words(home: ServingHome, frame, told: str) -> None:
    with fleetledger.active_model(home.folder) as model, pytest.raises(ImageError, match=told):
        model.classify(frame)


def test_pixels_get_a_mask_of_the_frames_size(tmp_path: Path) -> None:
    made = ServingHome(tmp_path / "agent-home")
    made.switch(dense.exported())
    wanted = dense.blocks(0, 1, 2, 0, height=40, width=64)
    with fleetledger.active_model(made.folder) as model:
        found = model.segment(np.asarray(dense.painted(wanted)))
        assert found.mask.shape == (40, 64)
        assert (found.mask == wanted).mean() > 0.9
        assert next(iter(found.shares)) == "background"
        assert sum(found.shares.values()) == pytest.approx(1)
        assert 0 < found.doubt < 1
        with pytest.raises(LoadError, match="gives pixels classes: use segment"):
            model.classify(np.asarray(dense.painted(wanted)))


def test_without_a_model_the_call_says_what_to_do(tmp_path: Path) -> None:
    made = ServingHome(tmp_path / "agent-home")
    with pytest.raises(NoModelError, match="let the agent run"):
        fleetledger.active_model(made.folder)


def test_the_home_is_that_of_the_variable(
    home: ServingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLEDGER_AGENT", str(home.folder))
    model = fleetledger.active_model()
    assert model.version == 1
    model.close()
    with pytest.raises(ModelError, match="was closed"):
        model.classify(dark())


def test_a_model_that_does_not_load_leaves_the_former_one(
    home: ServingHome, caplog: pytest.LogCaptureFixture
) -> None:
    with fleetledger.active_model(home.folder) as model, caplog.at_level(logging.WARNING):
        home.switch(exported(2))
        head = home.folder / "current" / "head.onnx"
        whole = head.read_bytes()
        head.unlink()
        head.write_bytes(whole[:-1])
        assert model.classify(dark()).version == 1
        assert model.classify(dark()).version == 1
        assert caplog.text.count("model version 1 stays") == 1
        home.switch(exported(3))
        assert model.classify(dark()).version == 3


def test_what_answers_goes_on_where_no_model_is_active_any_more(home: ServingHome) -> None:
    with fleetledger.active_model(home.folder) as model:
        home.slots.go_back()
        home.published.follow()
        assert model.classify(dark()).version == 1


def test_a_home_without_readable_settings_serves_too(home: ServingHome) -> None:
    (home.folder / "agent.toml").unlink()
    with fleetledger.active_model(home.folder) as model:
        assert model.classify(dark()).name == "dark"


def test_the_call_brings_neither_torch_nor_the_broker() -> None:
    code = (
        "import sys, fleetledger, fleetledger.device_agent.models.inference.running_model\n"
        "print(sorted({'torch', 'paho', 'onnxruntime', 'starlette'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_probabilities_are_those_of_the_manifest(home: ServingHome) -> None:
    with fleetledger.active_model(home.folder) as model:
        loaded = model.loaded()
        found = loaded.tensors(input_of(dark(), loaded.manifest.preprocessing)[np.newaxis])
        expected = softmax(found["scores"], loaded.manifest.logit_scale)
    assert found["probabilities"] == pytest.approx(expected)


def test_doubted_frames_go_into_the_inbox_where_the_owner_says_so(home: ServingHome) -> None:
    home.switch(exported(1))
    inbox = home.folder / "inbox"
    with fleetledger.active_model(home.folder) as model:
        model.classify(dark())
    assert not inbox.exists()
    file = home.folder / "agent.toml"
    text = file.read_text(encoding="utf-8")
    assert text.count("keep = false\n") == 1
    file.write_text(text.replace("keep = false\n", "keep = true\ndoubt = 0.0001\n"))
    with fleetledger.active_model(home.folder) as model:
        answer = model.classify(dark())
        assert len(list(inbox.glob("*.json"))) == 1
        assert answer.name in next(inbox.glob("*.json")).read_text()
        inbox.rename(home.folder / "moved")
        inbox.write_bytes(b"no folder")
        assert model.classify(dark()) == answer
