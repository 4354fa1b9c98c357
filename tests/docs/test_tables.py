"""Tables that are made from the source are as the source says."""

from pathlib import Path

import pytest

from fleetledger.simulator.scenario.loading import parse_scenario
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.study import load_forms
from tests.docs.tables import DOCS, PARTS, field_tables, filled


@pytest.mark.parametrize("page", PARTS)
def test_a_page_is_up_to_date(page: str):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text == filled(page), "write it anew: python -m tests.docs.tables"


def test_every_field_has_a_meaning_and_a_default():
    rows = [line for line in field_tables().splitlines() if line.startswith("| `")]
    assert len(rows) > 50
    for row in rows:
        name, allowed, default, meaning = (cell.strip() for cell in row.strip("|").split(" | ", 3))
        assert allowed, name
        assert default, name
        assert meaning.endswith((".", ")")), name


def test_the_example_on_the_page_is_a_scenario(tmp_path: Path):
    text = (DOCS / "scenarios.md").read_text(encoding="utf-8")
    examples = text.split("```toml\n")[1:]
    whole, based, rows, absences, adapted, on_features, central, pixels, rollout, study = (
        example.partition("```")[0] for example in examples
    )
    scenario = parse_scenario("example", whole, Path("/here"))
    assert scenario.data.root == "/here/birds"
    assert scenario.stages.total == 3
    assert parse_scenario("example", based, Path("/")).method.settings["memory"] == 4000
    assert Scenario.model_validate(scenario.model_dump()) == scenario
    assert parse_scenario("example", 'title = "x"\n' + absences, Path("/")).devices.absences
    assert parse_scenario("example", rows, Path("/here")).stages.file == "/here/plan.csv"
    beside = parse_scenario("example", 'title = "x"\n' + adapted, Path("/here"))
    assert (beside.backbone.weights, beside.backbone.shape) == ("IMAGENET1K_V1", (224, 224))
    trained = parse_scenario("example", 'title = "x"\n' + on_features, Path("/here"))
    assert trained.method.on_features
    assert trained.backbone.file == "/here/mobilenet_v2.onnx"
    begun = parse_scenario("example", 'title = "x"\n' + central, Path("/here"))
    assert begun.devices.policy.publish_images
    assert begun.method.base.milestones == (12, 16)
    seen = parse_scenario("example", 'title = "x"\n' + pixels, Path("/here"))
    assert (seen.stages.total, seen.backbone.shape) == (3, (360, 480))
    assert (seen.data.root, seen.method.trunk) == ("/here/CamVid", "/here/resnet101.pth")
    ended = parse_scenario("example", 'title = "x"\n' + rollout, Path("/here"))
    assert ended.rollout is not None
    assert ended.rollout.plan.groups == (1, 0.1, 0.25, 1.0)
    (tmp_path / "study.toml").write_text(study)
    assert len(load_forms(str(tmp_path / "study.toml"))) == 4
