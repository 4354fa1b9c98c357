"""Making of models: sums solved, rounds averaged, files prepared, ONNX packed, on job threads."""
