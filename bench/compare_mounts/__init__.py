"""The parts of bench/compare-mounts."""
