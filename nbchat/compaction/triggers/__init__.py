"""When to compact: meters, limits, the context tracker and the circuit breaker."""
