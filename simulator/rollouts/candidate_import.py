"""Import of a candidate for a rollout, from the model that a fleet runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image

from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.models.own_models import OwnModelFiles, prepare_own_model
from fleetledger.coordinator.topics.models.entries import ImportedFiles
from fleetledger.export.noise import noise_inputs
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.rollouts.brightness import between, brightest, dimmed, mean, preprocessed
from fleetledger.simulator.rollouts.candidates import CandidateMaterial
from fleetledger.simulator.scenario.rollout import RolloutSettings

_LOOKED_AT = 200
"""Test pictures by which a candidate's threshold is found."""
ReadBlob = Callable[[Digest], bytes]


def material_of(
    state: State, read: ReadBlob, settings: RolloutSettings, test: SampleSet
) -> CandidateMaterial:
    """Return the model that all devices are to run, and what its pictures look like."""
    models = state.models
    assert models.desired is not None, "the fleet has learned"
    exported = models.by_version[models.desired.version].exported
    assert exported is not None, "what is desired was exported"
    manifest = Manifest.read(read(exported.manifest.digest))
    pair = (read(manifest.frozen.digest), read(manifest.head.digest))
    kind, spec = settings.candidate.kind, manifest.preprocessing
    if kind not in ("bad-camera", "crashing"):
        return CandidateMaterial(manifest, *pair)
    pictures = list(_pictures(test))
    usual = preprocessed(pictures, spec)
    if kind == "crashing":
        made_up = noise_inputs(spec, len(usual))
        return CandidateMaterial(manifest, *pair, made_up=between(usual, made_up, mean))
    assert settings.cameras is not None, "the scenario was checked"
    others = preprocessed([dimmed(one, settings.cameras.brightness) for one in pictures], spec)
    return CandidateMaterial(manifest, *pair, dark=between(others, usual, brightest))


def import_candidate(home: Path, candidate: bytes, manifest: Manifest) -> ImportedFiles:
    """Store the files of a candidate in a coordinator's home, as `fleetledger model import` does.

    It answers like the model of `manifest`. Raises what `prepare_own_model` raises.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file, names = Path(scratch, "candidate.onnx"), Path(scratch, "classes.txt")
        file.write_bytes(candidate)
        names.write_text("\n".join(manifest.class_names) + "\n", encoding="utf-8")
        spec = Path(scratch, "preprocessing.json")
        spec.write_text(manifest.preprocessing.model_dump_json(), encoding="utf-8")
        return prepare_own_model(home, OwnModelFiles(file, spec, names, gives="scores"))


def version_of(state: State, files: ImportedFiles) -> int | None:
    """Return the version that imported files became; None before it has its manifest."""
    for version, model in state.models.by_version.items():
        imported = model.imported
        if imported is not None and imported.file == files.file and model.exported is not None:
            return version
    return None


def _pictures(test: SampleSet) -> Iterator[Image.Image]:
    """Yield some test pictures, evenly spaced."""
    for index in range(0, len(test), max(1, len(test) // _LOOKED_AT)):
        picture = test.picture(index)
        assert isinstance(picture, Image.Image), "rollouts are refused with other samples"
        yield picture
