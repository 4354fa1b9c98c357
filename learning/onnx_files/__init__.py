"""Rules for a file of a model, held to by reading it without ONNX and before anything loads it.

Devices hold what arrives to them, and the coordinator what an operator gives and what it exports:
an exporter can be wrong, and whoever speaks for the coordinator can lie.
"""
