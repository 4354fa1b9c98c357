"""What training dense networks takes: memory and seconds with each setting that saves some."""
