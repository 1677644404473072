"""Stage outputs on disk: what their keys cover, how they are written, checked, explained and freed."""
