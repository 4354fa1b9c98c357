"""What the page about data sets says of pictures with masks."""

import re
from pathlib import Path

from fleetledger.device_agent.kinds import SCENES
from fleetledger.device_agent.samples.sources.masks import load_mask_classes
from fleetledger.simulator.datasets.loading import names_of
from fleetledger.simulator.datasets.segmentation.digit_scenes import SceneSettings
from tests.simulator.plan.segmentation.task_setting import TaskSetting

PAGE = (Path(__file__).parents[4] / "docs" / "datasets.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## Pictures with masks") : PAGE.index("## Texts")]


def test_every_data_set_has_a_row():
    assert [name for name in names_of(SCENES) if f"| `{name}` |" not in SECTION] == []


def test_every_field_of_digit_scenes_is_named():
    assert [n for n in SceneSettings.model_fields if f"`scenes.{n}`" not in SECTION] == []


def test_the_shares_are_those_of_the_settings():
    rows = re.findall(r"^\| (\d.*|any other) \| (\S+?)(?: %)? \| (\S+?)(?: %)? \|$", SECTION, re.M)
    assert len(rows) == 4
    for settings, classes, pictures in rows:
        for name in settings.replace("any other", "4-2").split(", "):
            partition = TaskSetting.read(name).devices().partition
            said = [1.0 if share == "all" else int(share) / 100 for share in (classes, pictures)]
            assert [partition.class_share, partition.image_share] == said


def test_the_example_of_a_device_is_read(tmp_path: Path):
    (example,) = re.findall(r"```toml\n(.+?)```", SECTION, re.DOTALL)
    (tmp_path / "classes.toml").write_text(example)
    found = load_mask_classes(tmp_path / "classes.toml").names
    assert found == {1: "cat", 2: "traffic light"}
