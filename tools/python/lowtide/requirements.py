# SPDX-License-Identifier: Apache-2.0
"""numpy, which only running models needs: converting works in an environment without it."""

from __future__ import annotations

import sys

from .errors import RuntimeMissing


def need_numpy() -> None:
    """Checks that numpy is there.

    Raises
    ------
    RuntimeMissing
        If it cannot be imported.
    """
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        raise RuntimeMissing(
            f"running models needs the package numpy, which {sys.executable} cannot import ({error}): "
            "pip install 'lowtide[run]'"
        ) from error
