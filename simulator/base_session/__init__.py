"""A first stage that is learned in one place, before the fleet goes on from there."""
