"""The built-in corpus: English-German pairs made by a grammar of our own, for the demo and for tests.

It needs no download, comes in any size, and its German follows from its English, so that a small model can learn it.
"""

from nmt.corpus.builtin.dirt import DIRT
from nmt.corpus.builtin.generate import generate, split_of
from nmt.corpus.builtin.grammar import sentence

__all__ = ["DIRT", "generate", "sentence", "split_of"]
