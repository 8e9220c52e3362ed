"""Real members played from outside: the demo, and what tests and benchmarks play theirs with."""
