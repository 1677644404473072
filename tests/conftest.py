"""What holds for every test: no user's Prefect profile, no user's data, quiet TensorFlow."""

import os
import tempfile

# Before anything imports Prefect or TensorFlow: both read these once.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="wmtflow-prefect-")
os.environ["WMTFLOW_DATA"] = tempfile.mkdtemp(prefix="wmtflow-data-")
for name in ("PREFECT_API_URL", "PREFECT_PROFILE", "WMTFLOW_MIRROR"):
    os.environ.pop(name, None)
