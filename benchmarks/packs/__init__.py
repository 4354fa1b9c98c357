"""Turning image packs into the layouts that benchmarks read."""
