"""The owner's pictures, texts and scenes: found, read, and never copied."""
