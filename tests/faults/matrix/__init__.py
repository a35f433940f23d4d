"""The fault matrix: what a mount does while its origin misbehaves. matrix.py runs it."""
