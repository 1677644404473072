"""The machines: what they offer, and starting processes on them."""
