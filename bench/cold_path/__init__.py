"""The parts of bench/cold-path."""
