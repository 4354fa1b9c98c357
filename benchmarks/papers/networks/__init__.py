"""Networks that benchmarks and trials use as backbones."""
