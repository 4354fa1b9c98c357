"""What a decision changes, by what it is about; `durable` says what a change is."""
