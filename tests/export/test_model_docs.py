"""docs/models.md describes every field, and its example works."""

import re
from pathlib import Path

import pytest

from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.runtime.strict import Strict
from fleetledger.schemas import models

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("model", [models.Preprocessing, models.Manifest, models.Parity])
def test_every_field_is_described(model: type[Strict]) -> None:
    missing = [name for name in model.model_fields if f"`{name}`" not in PAGE]
    assert not missing


def test_every_name_of_a_tensor_is_described() -> None:
    names = (models.FEATURES, models.SCORES, models.PROBABILITIES, models.GOLDEN_INPUTS)
    names += (models.SMALL_SCORES, models.BACKGROUND, models.NOVELTY)
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_example_of_a_preprocessing_file_is_accepted(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    path = tmp_path / "example.toml"
    path.write_text(example[1])
    assert load_preprocessing(path).shape == (3, 112, 112)
