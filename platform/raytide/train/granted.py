"""For a rigid job with ``launch: driver``: where its workers may run."""

from __future__ import annotations

import json
import os
from typing import Any

VARIABLE = "RAYTIDE_LABEL_SELECTOR"


def granted_nodes() -> dict[str, Any]:
    """The nodes this job was granted, as an argument of Ray Train's ``ScalingConfig``.

    A job that places its own workers holds no reservation which would keep them on its nodes; this does::

        TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=4, use_gpu=True, **granted_nodes()))

    Returns:
        ``{"label_selector": {"ray.io/node-id": "in(...)"}}``; nothing outside of raytide, so that the script
        also runs by itself.
    """
    text = os.environ.get(VARIABLE, "")
    return {"label_selector": json.loads(text)} if text else {}
