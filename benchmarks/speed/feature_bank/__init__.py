"""The feature bank against ONNX Runtime and BLAS alone; README.md tells the result."""
