"""What a process that judges a file is asked, and what it answers: numbers, texts, no programs.

Both are safetensors files: bytes as tensors of that name, and all else as JSON in one tensor more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from fleetledger.export import errors as export_errors
from fleetledger.export.backbone import ImportedBackbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.layers import AS_IT_IS, FeatureChoice
from fleetledger.export.own_model import CutModel, OwnModelRequest
from fleetledger.learning import errors as learning_errors
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.values import ClassName

_FACTS, _DATA, _SAMPLE = "facts", "data", "sample"
_PREPROCESSING: TypeAdapter[AnyPreprocessing] = TypeAdapter(AnyPreprocessing)


@dataclass(frozen=True)
class BackboneRequest:
    """What a backbone's file is to be taken for."""

    preprocessing: AnyPreprocessing
    choice: FeatureChoice = AS_IT_IS
    pool: bool = False


@dataclass(frozen=True)
class GoldenRequest:
    """What a frozen model is run on for its golden batch."""

    preprocessing: AnyPreprocessing


@dataclass(frozen=True)
class GoldenFile:
    """The file of a golden batch."""

    golden: bytes


Wanted = OwnModelRequest | BackboneRequest | GoldenRequest
_KINDS: dict[str, type[Wanted]] = {
    "model": OwnModelRequest,
    "backbone": BackboneRequest,
    "golden": GoldenRequest,
}
Made = TypeVar("Made", CutModel, ImportedBackbone, GoldenFile)


@dataclass(frozen=True)
class JudgingRequest:
    """A file, what it is to be taken for, and what that may take.

    The law: `JudgingRequest.read(request.written()) == request`, with samples as bytes.
    """

    data: bytes
    wanted: Wanted
    seconds: int
    memory_bytes: int

    @property
    def too_large(self) -> str:
        """Why a file is refused that takes more memory than it may."""
        return (
            f"model: takes more than {self.memory_bytes >> 20} MiB of memory; export a smaller "
            "network, or raise [imports] memory_mib in coordinator.toml"
        )

    def written(self) -> bytes:
        """Return the bytes of the request."""
        wanted = self.wanted
        samples = list(wanted.samples) if isinstance(wanted, OwnModelRequest) else []
        files = {f"{_SAMPLE}{number}": data for number, data in enumerate(samples)}
        asked = {
            item.name: getattr(wanted, item.name)
            for item in fields(wanted)
            if item.name != "samples"
        }
        facts = {
            "kind": next(name for name, kind in _KINDS.items() if isinstance(wanted, kind)),
            "wanted": asked,
            "seconds": self.seconds,
            "memory_bytes": self.memory_bytes,
        }
        return _written({_DATA: self.data, **files}, facts)

    @classmethod
    def read(cls, data: bytes) -> JudgingRequest:
        """Read what `written` has made."""
        files, facts = _read(data)
        asked = facts["wanted"]
        asked["preprocessing"] = _PREPROCESSING.validate_python(asked["preprocessing"])
        kind = _KINDS[facts["kind"]]
        if kind is BackboneRequest:
            choice = asked["choice"]
            asked["choice"] = FeatureChoice(tuple(choice["layers"]), choice["mirror"])
        if kind is OwnModelRequest:
            asked["class_names"] = tuple(ClassName(name) for name in asked["class_names"])
            asked["domains"] = frozenset(asked["domains"])
            asked["samples"] = [files[f"{_SAMPLE}{number}"] for number in range(len(files) - 1)]
        return cls(files[_DATA], kind(**asked), facts["seconds"], facts["memory_bytes"])


@dataclass(frozen=True)
class ImportRefusal:
    """Why a file was not taken in: a kind of error, and its text."""

    kind: str
    text: str

    @property
    def error(self) -> Exception:
        """The error that it tells."""
        for tree in (export_errors, learning_errors):
            known = getattr(tree, self.kind, None)
            if isinstance(known, type) and issubclass(known, Exception):
                return known(self.text)
        return ModelFileError(self.text)


def written_answer(made: CutModel | ImportedBackbone | GoldenFile | ImportRefusal) -> bytes:
    """Return the bytes of an answer."""
    values = {item.name: getattr(made, item.name) for item in fields(made)}
    files = {name: value for name, value in values.items() if isinstance(value, bytes)}
    return _written(files, {name: value for name, value in values.items() if name not in files})


def read_answer(data: bytes, kind: type[Made]) -> Made:
    """Return what an answer holds; raise the error that it tells, or `ModelFileError`."""
    try:
        files, facts = _read(data)
        if set(facts) == {item.name for item in fields(ImportRefusal)}:
            raise ImportRefusal(**facts).error
        return TypeAdapter(kind).validate_python({**files, **facts})
    except (safetensors.SafetensorError, KeyError, ValueError, ValidationError) as error:
        raise ModelFileError(
            "model: the process that judged it answered nonsense; export it again"
        ) from error


def _written(files: Mapping[str, Any], facts: Mapping[str, Any]) -> bytes:
    tensors = {name: np.frombuffer(value, np.uint8) for name, value in files.items()}
    told = json.dumps(to_jsonable_python(facts)).encode("utf-8")
    return safetensors.numpy.save({**tensors, _FACTS: np.frombuffer(told, np.uint8)})


def _read(data: bytes) -> tuple[dict[str, bytes], dict[str, Any]]:
    files = {name: value.tobytes() for name, value in safetensors.numpy.load(data).items()}
    return files, json.loads(files.pop(_FACTS))
