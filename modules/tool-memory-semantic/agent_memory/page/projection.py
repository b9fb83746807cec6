"""Lays memories out as a map: those close together are similar in meaning.

It needs the extra `map`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

# Fewer points than this have too few neighbours for t-SNE: principal components place them.
_FEW = 8
# openTSNE's defaults are 250 and 500; with a start from principal components the map settles
# sooner, and ten thousand memories take two thirds of the time.
_EARLY_STEPS, _STEPS = 150, 350
_STEPS_BETWEEN_REPORTS = 10


def installed() -> bool:
    """Whether `project` has what it needs."""
    return find_spec("openTSNE") is not None


def project(vectors: NDArray[float32], progress: Callable[[float], None]) -> NDArray[float32]:
    """Two coordinates for each row of `vectors`, which have length one; the same for the same rows.

    `progress` is called with the part that is done, from 0 to 1.
    """
    # These take a second or more to import, so only a map pays for them.
    import numpy as np
    from openTSNE import TSNE, initialization

    progress(0.0)
    count = len(vectors)
    if count < 2 or np.ptp(vectors, axis=0).max() < 1e-6:
        places = initialization.random(count, random_state=0)  # all alike: a cloud
    elif count < _FEW:
        places = initialization.pca(vectors, random_state=0)  # its jitter separates equal ones
    else:
        steps_done = 0

        def report(_step: int, _error: float, _places: object) -> None:
            nonlocal steps_done
            steps_done += _STEPS_BETWEEN_REPORTS
            progress(steps_done / (_EARLY_STEPS + _STEPS))

        # How many neighbours count: few among few memories, so that small groups show.
        perplexity = min(30, math.isqrt(count), (count - 1) // 3)
        # One job: with more, sums are added in a different order each time, and the map differs.
        # The exact search for neighbours is no slower here than the approximate one.
        places = TSNE(
            perplexity=perplexity,
            metric="cosine",
            neighbors="exact",
            initialization="pca",
            early_exaggeration_iter=_EARLY_STEPS,
            n_iter=_STEPS,
            negative_gradient_method="bh",
            theta=0.8,
            n_jobs=1,
            random_state=0,
            callbacks=[report],
            callbacks_every_iters=_STEPS_BETWEEN_REPORTS,
        ).fit(vectors)
    progress(1.0)
    return np.asarray(places, dtype=np.float32)
