"""Errors of the export package.

FleetledgerError
└── ExportError
    ├── ModelFileError          an ONNX file is refused, or a graph cannot be built
    ├── PreprocessingFileError  the description of a backbone's input cannot be read
    ├── ParityError             the exported pair does not follow the coordinator's prediction
    └── RuntimeMissingError     ONNX Runtime is not installed
"""

from __future__ import annotations

from schemas.errors import FleetledgerError


class ExportError(FleetledgerError):
    """Something cannot be exported; the text says what and how to mend it."""


class ModelFileError(ExportError):
    """An ONNX model breaks a rule of this house, or the values for one do."""


class PreprocessingFileError(ExportError):
    """A preprocessing file is missing, unreadable, or holds a value that is not allowed."""


class ParityError(ExportError):
    """ONNX Runtime and the coordinator disagree by more than the tolerance."""


class RuntimeMissingError(ExportError):
    """ONNX Runtime is not installed; the text gives the command."""
