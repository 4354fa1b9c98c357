"""Models on this device: installed, tried, run, compared, trained, and asked what is new."""
