"""The parts of bench/read-path."""
