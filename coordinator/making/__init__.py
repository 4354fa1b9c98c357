"""Making models: sums solved, rounds averaged, networks and files prepared, ONNX packed."""
