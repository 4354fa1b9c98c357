"""Images that the model doubts, kept on the device until their owner says what they are."""
