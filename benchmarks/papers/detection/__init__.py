"""Device statistics against the BLAS product inside them; README.md tells the result."""
