"""Scores that never stand without their signature."""
