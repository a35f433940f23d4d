"""The parts of bench/write-path."""
