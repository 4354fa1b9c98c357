"""What docs/arrays.md says: every field, its bounds, and its examples."""

import re
from pathlib import Path

from fleetledger.device_agent.kinds import ARRAY, MAX_FILE_BYTES
from fleetledger.device_agent.settings import AgentDataSettings
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.learning.numerics.arrays import MAX_UNPACKED
from fleetledger.schemas.arrays import MAX_ARRAY_NUMBERS, MAX_RANK, ArrayPreprocessing

PAGE = (Path(__file__).parents[2] / "docs" / "arrays.md").read_text(encoding="utf-8")


def test_every_field_and_every_bound_is_described() -> None:
    assert [name for name in ArrayPreprocessing.model_fields if f"| `{name}` |" not in PAGE] == []
    assert f"1 to {MAX_RANK} axes, together at most {MAX_ARRAY_NUMBERS:,} numbers" in PAGE
    assert f"at most {MAX_FILE_BYTES >> 20} MiB, and at most {MAX_UNPACKED >> 20} MiB" in PAGE
    assert [ending for ending in ARRAY.suffixes if f"`{ending}`" not in PAGE] == []


def test_the_examples_are_accepted(tmp_path: Path) -> None:
    sensor, agent = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "sensor.toml"
    path.write_text(sensor)
    assert load_preprocessing(path).shape == (6, 128)
    assert 'samples = "array"\nshape = [6, 128]' in agent
    assert AgentDataSettings(folder=Path("data"), samples="array", shape=(6, 128)).kind is ARRAY
