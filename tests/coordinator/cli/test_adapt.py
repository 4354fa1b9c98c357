"""`fleetledger model adapt`: an adapter begins on top of the newest model, or is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from fleetledger.coordinator.cli.models import app
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.export.network_head import NetworkHead
from fleetledger.learning.networks.network import Network
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.statistics.solved_heads import decode_head
from fleetledger.methods.training.network_weights import decode_base, decode_weights
from tests.coordinator.program.test_shell import samples
from tests.coordinator.replay.stories import WIDTH, Story


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a coordinator that has stopped, after its stage was learned."""
    folder = tmp_path_factory.mktemp("home")
    story = Story(folder, "dev-1", "dev-2")
    story.give("dev-1", 1)
    story.give("dev-2", 2)
    story.model()
    stages = story.coordinator.engine.core.state.stages
    if stages.open is not None:
        story.coordinator.command(CloseStage())
    story.close()
    return folder


def adapt(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["adapt", *arguments, "--home", str(home)])


def test_another_model_than_the_newest_is_refused_by_name(home: Path) -> None:
    refused = adapt(home, "3").exception
    assert isinstance(refused, CommandError)
    assert "3 is not the newest model that was solved" in str(refused)


def test_it_begins_with_the_head_also_where_no_coordinator_runs(home: Path) -> None:
    said = " ".join(adapt(home).output.split())
    assert "an adapter is trained on top of model 1" in said
    assert "1 of 2 devices has no part in it, and says whether it is better" in said
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        last = {entry.kind: entry.body for entry in ledger.entries()}
        solved, opened = last["model.solved"], last["stage.opened"]
        blobs = Blobs(ledger, BlobStore(blob_folder(home)))
        imported = NetworkImported.model_validate(last[NetworkImported.kind])
        assert opened["class_names"] == solved["class_names"]
        assert imported.base is not None
        described = training_coordinator(imported.method).read_assignment(imported.settings).network
        assert isinstance(described, Network)
        arrays, names = decode_weights(blobs.get(imported.weights.digest), described)
        base = decode_base(blobs.get(imported.base.digest), described)
        weights = decode_head(blobs.get(solved["head"]), (len(names), WIDTH)).weights
    features, _ = samples(9, 20, WIDTH)
    found = NetworkHead(described, arrays, WIDTH, base).expected(features)
    scores = features.astype(np.float64) @ weights.T
    assert np.allclose(found / scores, (found / scores)[0, 0], rtol=1e-4)
