"""What dense networks take: an inference in ONNX Runtime and a step of training."""
