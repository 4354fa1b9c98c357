"""What a model is computed by: execution providers, and what each of them really runs."""
