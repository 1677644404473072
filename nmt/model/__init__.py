"""The Transformer: shapes, layers, loss, schedule. TensorFlow, no files."""
