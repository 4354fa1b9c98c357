"""Actions of an operator, in one table: pages make forms of them, programs make calls of them."""
