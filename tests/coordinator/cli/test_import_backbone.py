"""`fleetledger model import-backbone`: which features of a network the frozen model gives."""

from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.lineages.entries import BackboneImported
from tests.coordinator.cli.test_variants import run
from tests.device_agent.making import GREY_8
from tests.device_agent.models import variant_models


@pytest.mark.parametrize(
    ("options", "width"),
    [((), 16), (("--layer", "r1", "--layer", "r4"), 24), (("--layer", "r0", "--mirror"), 8)],
)
def test_layers_and_mirror_images_become_part_of_the_frozen_model(
    options: tuple[str, ...], width: int, tmp_path: Path
) -> None:
    home, backbone = tmp_path / "home", tmp_path / "backbone.onnx"
    run(home, "coordinator", "init", "--trial", "--fleet", "birds")
    backbone.write_bytes(variant_models.backbone())
    described = tmp_path / "backbone.json"
    described.write_text(GREY_8.model_dump_json(), encoding="utf-8")
    words = ("model", "import-backbone", str(backbone), "--preprocessing", str(described))
    run(home, *words, *options)
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        (entry,) = ledger.find(BackboneImported)
    assert BackboneImported.model_validate(entry.body).backbone_width == width
