"""Training: batches, the loop, checkpoints, Horovod. `python -m nmt.training` is what horovodrun starts."""
