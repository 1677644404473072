"""The story: which stages, in which order."""
