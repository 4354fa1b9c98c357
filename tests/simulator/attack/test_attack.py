"""An eavesdropper on the proxy's branch: what the command shows, and on what it refuses to work."""

import re
import sys

import numpy as np
import pytest
from PIL import Image

from fleetledger import command_line
from fleetledger.learning.networks.registry import build_network
from fleetledger.methods.training.network_weights import encode_weights
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.attack.report import BLURRED, CLEAR, meaning

pytestmark = pytest.mark.torch

FILES = ["truth", "perturbed", "found-without", "found-with", "side-by-side"]


def call(monkeypatch, capsys, *arguments):
    """Return the exit code and all that was said."""
    argv = ["fleetledger", "attack", "invert", *map(str, arguments)]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as leaving:
        command_line.main()
    said = capsys.readouterr()
    return int(leaving.value.code or 0), said.out + said.err


def pixels(path):
    return np.asarray(Image.open(path)).astype(float) / 255


def decibels(one, other):
    return -10 * np.log10(((one - other) ** 2).mean() + 1e-12)


def test_a_digits_gradients_give_it_away_and_its_perturbed_ones_the_perturbed_picture(
    monkeypatch, capsys, tmp_path
):
    code, said = call(monkeypatch, capsys, "--digit", 3, "--out", tmp_path / "out")
    assert code == 0
    assert "label told by the gradients: 3 (right)" in said
    truth, changed, without, found = (pixels(tmp_path / "out" / f"{n}.png") for n in FILES[:4])
    assert truth.shape == (8, 8)
    assert decibels(without, truth) > 45
    assert decibels(found, changed) > 45
    assert decibels(found, truth) == pytest.approx(decibels(changed, truth), abs=0.5)
    told = float(re.search(r"found with perturbation: (\S+) dB", said)[1])
    assert told == pytest.approx(decibels(found, truth), abs=0.1)
    assert meaning(told) in said
    wide = Image.open(tmp_path / "out" / "side-by-side.png")
    assert wide.size == (4 * 160 + 3 * 8, 160)


def test_picture_files_with_a_fleets_weights(monkeypatch, capsys, tmp_path):
    """Without a step of any length, what is sent is the picture itself."""
    names = (ClassName("ant"), ClassName("bee"))
    network = build_network("mlp", (3, 8, 8))
    weights = tmp_path / "weights"
    weights.write_bytes(encode_weights(network.initial(1, names), names))
    drawn = np.random.default_rng(1).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(drawn).save(tmp_path / "bee.png")
    given = [tmp_path / "bee.png", "--side", 8, "--network", "mlp", "--weights", weights]
    gentle = ["--perturbation-rate", "1e-9", "--perturbation-steps", 1, "--out", tmp_path / "out"]
    code, said = call(monkeypatch, capsys, *given, "--label", "bee", *gentle)
    assert code == 0
    assert "label told by the gradients: bee (right)" in said
    truth, changed, *found = (pixels(tmp_path / "out" / f"{n}.png") for n in FILES[:4])
    assert truth.shape == (8, 8, 3)
    assert np.array_equal(truth, changed)
    assert min(decibels(one, truth) for one in found) > 40
    assert "protects nothing" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give picture files of one class, or --digit, not both"),
        (["--digit", 3, "one.png"], "give picture files of one class, or --digit, not both"),
        (["--digit", 3, "--label", "3"], "which is its own label"),
        (["--digit", 3, "--weights", "nowhere"], "nowhere: cannot be read"),
        (["nowhere.png"], "nowhere.png: cannot be read"),
    ],
)
def test_what_cannot_be_attacked_is_told_in_a_sentence(monkeypatch, capsys, arguments, words):
    code, said = call(monkeypatch, capsys, *arguments)
    assert code == 1
    assert words in said


def test_a_class_that_the_weights_do_not_know_is_named(monkeypatch, capsys, tmp_path):
    names = (ClassName("ant"), ClassName("bee"))
    weights = tmp_path / "weights"
    weights.write_bytes(encode_weights(build_network("mlp", (1, 8, 8)).initial(1, names), names))
    code, said = call(monkeypatch, capsys, "--digit", 3, "--weights", weights)
    assert code == 1
    assert "label: '3', and the head of" in said
    assert "knows ant, bee" in said


def test_decibels_are_told_in_words_for_what_can_be_seen():
    words = [meaning(value) for value in (CLEAR, CLEAR - 0.1, BLURRED, BLURRED - 0.1)]
    assert words[1] == words[2]
    assert len(set(words)) == 3
