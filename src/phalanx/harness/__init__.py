"""Real members in processes of their own, controlled from outside: for demo, tests, benchmarks."""
