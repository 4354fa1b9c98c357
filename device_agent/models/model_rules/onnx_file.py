"""The rules for an ONNX file that arrives: those of `learning.onnx_files`, in a device's words."""

from __future__ import annotations

from pathlib import Path

from fleetledger.device_agent.errors import RuleError
from fleetledger.learning.errors import GraphFileError
from fleetledger.learning.onnx_files.file_rules import OnnxFile, read_onnx_file


def check_onnx(path: Path, domains: frozenset[str] = frozenset()) -> OnnxFile:
    """Hold a file to the rules, and return what it declares; raise `RuleError` in words."""
    try:
        return read_onnx_file(path, domains)
    except GraphFileError as error:
        raise RuleError(f"file {path.name[:12]}: refused before it was loaded: {error}") from error
