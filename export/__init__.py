"""Networks and heads into ONNX, parity check, manifest. Knows nothing of devices or MQTT."""
