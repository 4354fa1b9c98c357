"""What a file of a model must be before anything loads it.

The rules of the coordinator's exports (`export.rules`), held to once more where the files arrive,
without onnx or protobuf: an exporter can be wrong, and whoever speaks for the coordinator can lie.
"""
