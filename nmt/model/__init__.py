"""The Transformer: shapes, layers, loss, schedule. TensorFlow, no files."""

from nmt.model.processor import keep_off_hidden_tiles

keep_off_hidden_tiles()
