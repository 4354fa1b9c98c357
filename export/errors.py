"""Errors of the export package.

FleetledgerError
└── ExportError
    ├── ModelFileError          an ONNX file is refused, or a graph cannot be built
    ├── PreprocessingFileError  the description of a backbone's input cannot be read
    ├── ClassFileError          the names of a model's classes cannot be read
    ├── WeightsError            a file of weights cannot be read or does not fit its network
    ├── NetworkError            torchvision has no such network, or not for pictures of that size
    ├── OutputFileError         a file cannot be written there
    ├── CalibrationError        images that variants are calibrated and measured on are missing
    ├── SigningKeyError         a key is none that exported files can be signed with
    ├── ParityError             the exported network or pair does not follow what it stands for
    └── RuntimeMissingError     ONNX Runtime is not installed
"""

from fleetledger.runtime.errors import FleetledgerError


class ExportError(FleetledgerError):
    """Something cannot be exported; the text says what and how to mend it."""


class ModelFileError(ExportError):
    """An ONNX model breaks a rule of this house, or the values for one do."""


class PreprocessingFileError(ExportError):
    """A preprocessing file is missing, unreadable, or holds a value that is not allowed."""


class ClassFileError(ExportError):
    """A file of class names is missing, unreadable, or holds a name that is not allowed."""


class WeightsError(ExportError):
    """A file of weights cannot be read or does not fit its network."""


class NetworkExportError(ExportError):
    """torchvision has no network of that name, or none for pictures of that size."""


class OutputFileError(ExportError):
    """A file that should be made cannot be written."""


class SigningKeyError(ExportError):
    """A key is none that exported files can be signed with, or cannot be read or made."""


class CalibrationError(ExportError):
    """There are too few images to calibrate variants and to measure what they lose."""


class ParityError(ExportError):
    """ONNX Runtime and what was exported disagree by more than the tolerance."""


class RuntimeMissingError(ExportError):
    """ONNX Runtime is not installed; the text gives the command."""
