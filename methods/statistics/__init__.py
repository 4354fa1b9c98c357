"""What methods of statistics share: contributions that are sums, and heads solved from them."""
