"""The parts of bench/tiers."""
