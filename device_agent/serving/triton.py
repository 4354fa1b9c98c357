"""A published model as a model repository of NVIDIA's Triton Inference Server.

    active/          config.pbtxt, labels.txt, VERSION/: an ensemble of the two below
    frozen-DIGEST/   config.pbtxt, 1/model.onnx: from the input to features, on a GPU if any
    head-DIGEST/     config.pbtxt, labels.txt, 1/model.onnx: to scores, on the processor

- An ensemble, since the two files are there: a device has no tools that could join them. So a new
  class loads a head, and no engine is built anew of the frozen part.
- The parts are named by what they hold, so whatever Triton sees of a switch, an `active` leads to
  the parts that it was written for. They are as old as their model files: Triton, which loads what
  has become newer, leaves a frozen part alone that was published again.
- Shapes are those that the files declare, which Triton compares.

Source: docs/user_guide/model_repository.md, model_configuration.md, ensemble_models.md and
model_management.md of https://github.com/triton-inference-server/server, and the ModelConfig of
https://github.com/triton-inference-server/common. Triton itself was not run here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from device_agent.errors import LoadError
from device_agent.serving.second_names import give_second_name, holds_blob
from device_agent.store.blobs import BlobFolder, sync_folder, write_durably
from learning.onnx_files.reading import OnnxFile, OnnxValue
from schemas.models import FEATURES, PROBABILITIES, SCORES, Manifest
from schemas.values import Digest

ACTIVE = "active"
"""The ensemble's name, that of the model in `agent serve` too."""
REPOSITORY = "triton"
"""The repository's name in a published folder."""
_CONFIG, _LABELS, _MODEL = "config.pbtxt", "labels.txt", "1/model.onnx"
_TYPES = {1: "TYPE_FP32", 6: "TYPE_INT32", 7: "TYPE_INT64", 10: "TYPE_FP16", 11: "TYPE_FP64"}
"""Triton's names of ONNX's element types."""


@dataclass(frozen=True)
class TritonRepository:
    """What a repository of one version holds, by paths in it."""

    texts: Mapping[str, str]
    models: Mapping[str, Digest]
    version: str
    """The folder of the ensemble's version, without a file."""

    @classmethod
    def of(
        cls, manifest: Manifest, frozen: OnnxFile, head: OnnxFile, batch: int
    ) -> TritonRepository:
        """Describe a model by its files, for at most `batch` samples at a time.

        Raises `LoadError` for a file that does not say what Triton must be told.
        """
        parts = _Parts.of(manifest, frozen, head, batch)
        labelled = manifest.answers == "sample"
        labels = "".join(f"{name}\n" for name in manifest.class_names)
        texts = {
            f"{ACTIVE}/{_CONFIG}": _text(parts.ensemble()),
            f"{parts.frozen_name}/{_CONFIG}": _text(parts.frozen_part()),
            f"{parts.head_name}/{_CONFIG}": _text(parts.head_part()),
        }
        if labelled:
            texts |= {f"{name}/{_LABELS}": labels for name in (ACTIVE, parts.head_name)}
        models = {
            f"{parts.frozen_name}/{_MODEL}": manifest.frozen.digest,
            f"{parts.head_name}/{_MODEL}": manifest.head.digest,
        }
        return cls(texts, models, f"{ACTIVE}/{manifest.version}")

    def is_in(self, folder: Path, blobs: BlobFolder) -> bool:
        """Whether a folder holds it."""
        try:
            return (
                (folder / self.version).is_dir()
                and all(
                    (folder / name).read_text(encoding="utf-8") == text
                    for name, text in self.texts.items()
                )
                and all(
                    holds_blob(folder / name, blobs.path(digest), digest)
                    for name, digest in self.models.items()
                )
            )
        except (OSError, ValueError):
            return False

    def write_to(self, folder: Path, blobs: BlobFolder) -> None:
        """Write it into a folder that is not there yet, durably; raise `OSError`."""
        (folder / self.version).mkdir(parents=True)
        for name, digest in self.models.items():
            (folder / name).parent.mkdir(parents=True)
            give_second_name(folder / name, blobs.path(digest))
            sync_folder((folder / name).parent)
        for name, text in self.texts.items():
            write_durably(folder / name, text.encode("utf-8"))
        for name in self.models:
            _be_as_old_as(folder / name)
        sync_folder(folder)


def _be_as_old_as(model: Path) -> None:
    """Give all of a part the time of its model file."""
    at, part = model.stat().st_mtime_ns, model.parent.parent
    for path in (*part.iterdir(), part):
        os.utime(path, ns=(at, at))


def have_loaded(published: Path, former: Path) -> None:
    """Let a published folder's ensemble be newer than that of the former one, though it be older.

    Triton loads again what is newer than it was, and a device may go back to an older version.
    """
    config = Path(REPOSITORY) / ACTIVE / _CONFIG
    if not (published / config).exists():
        return
    before = (former / config).stat().st_mtime_ns if (former / config).exists() else 0
    at = max(time.time_ns(), before + 1)
    os.utime(published / config, ns=(at, at))


Field = tuple[str, "str | Sequence[Field]"]
"""A field of Triton's configuration: a value as it is written, or a message."""


@dataclass(frozen=True)
class _Parts:
    """The three models of a repository."""

    manifest: Manifest
    frozen: OnnxFile
    head: OnnxFile
    batch: int
    """0 where a file takes a fixed number of samples, which Triton calls no batching."""

    @classmethod
    def of(cls, manifest: Manifest, frozen: OnnxFile, head: OnnxFile, batch: int) -> _Parts:
        values = (*frozen.inputs, *frozen.outputs, *head.inputs, *head.outputs)
        for value in values:
            if not value.axes or value.element not in _TYPES:
                raise LoadError(
                    f"{value.name}: the file does not say its shape, or has a type that Triton is "
                    'not told of here; export it again, or say layout = "plain" under [model]'
                )
        free = all(value.axes is not None and value.axes[0] is None for value in values)
        return cls(manifest, frozen, head, batch if free else 0)

    @property
    def frozen_name(self) -> str:
        return f"frozen-{self.manifest.frozen.digest[:16]}"

    @property
    def head_name(self) -> str:
        # By the manifest, which has the names of its classes too.
        return f"head-{self.manifest.digest[:16]}"

    def frozen_part(self) -> Iterator[Field]:
        yield from self._model(self.frozen_name)
        yield from (("input", self._tensor(value)) for value in self.frozen.inputs)
        yield from (("output", self._tensor(value)) for value in self.frozen.outputs)
        yield "instance_group", [("count", "1"), ("kind", "KIND_AUTO")]

    def head_part(self) -> Iterator[Field]:
        yield from self._model(self.head_name)
        yield from (("input", self._tensor(value)) for value in self.head.inputs)
        yield from (("output", self._output(value)) for value in self.head.outputs)
        yield "instance_group", [("count", "1"), ("kind", "KIND_CPU")]

    def ensemble(self) -> Iterator[Field]:
        source = self.frozen.inputs[0]
        given = [value for value in self.head.outputs if value.name in (SCORES, PROBABILITIES)]
        yield "name", _quoted(ACTIVE)
        yield "platform", _quoted("ensemble")
        yield "max_batch_size", str(self.batch)
        yield "input", self._tensor(source)
        yield from (("output", self._output(value)) for value in given)
        first = self._step(self.frozen_name, {source.name: source.name}, [FEATURES])
        second = self._step(self.head_name, {FEATURES: FEATURES}, [value.name for value in given])
        yield "ensemble_scheduling", [("step", first), ("step", second)]

    def _model(self, name: str) -> Iterator[Field]:
        yield "name", _quoted(name)
        yield "platform", _quoted("onnxruntime_onnx")
        yield "max_batch_size", str(self.batch)

    def _tensor(self, value: OnnxValue) -> list[Field]:
        axes = (value.axes or ())[1 if self.batch else 0 :]
        sizes = ", ".join("-1" if size is None else str(size) for size in axes)
        return [
            ("name", _quoted(value.name)),
            ("data_type", _TYPES[value.element]),
            ("dims", f"[ {sizes} ]"),
        ]

    def _output(self, value: OnnxValue) -> list[Field]:
        fields = self._tensor(value)
        if self.manifest.answers == "sample":
            fields.append(("label_filename", _quoted(_LABELS)))
        return fields

    @staticmethod
    def _step(name: str, inputs: Mapping[str, str], outputs: Sequence[str]) -> list[Field]:
        fields: list[Field] = [("model_name", _quoted(name)), ("model_version", "-1")]
        for kind, names in (("input_map", inputs), ("output_map", {one: one for one in outputs})):
            for own, outside in names.items():
                fields.append((kind, [("key", _quoted(own)), ("value", _quoted(outside))]))
        return fields


def _text(fields: Iterable[Field], depth: int = 0) -> str:
    """Return fields in protobuf's text format."""
    written = []
    for name, value in fields:
        if isinstance(value, str):
            written.append(f"{'  ' * depth}{name}: {value}\n")
        else:
            inside = _text(value, depth + 1)
            written.append(f"{'  ' * depth}{name} {{\n{inside}{'  ' * depth}}}\n")
    return "".join(written)


def _quoted(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8"))
