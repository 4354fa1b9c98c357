"""Many runs from one call: scenarios, seeds and values of fields, side by side in one table."""
