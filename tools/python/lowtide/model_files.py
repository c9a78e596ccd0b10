# SPDX-License-Identifier: Apache-2.0
"""The files that a model is read from: what a command must not write its results over."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .manifest import NAME, read_manifest
from .onnx_header import read_skeleton
from .pieces_session import parent_of
from .runner import model_kind
from .tflite_header import read_header


def model_files(path: str) -> Iterator[str]:
    """A model with its external data, or a folder of pieces with all that its manifest lists.

    Only what is asked for is read: of weights nothing.

    Raises
    ------
    Error
        As for running it.
    """
    kind = model_kind(path)
    if kind == "pieces":
        yield os.path.join(path, NAME)
        manifest = read_manifest(path)
        for piece in manifest.pieces:
            yield from (os.path.join(path, file.name) for file in (piece.file, *piece.data))
        yield from (os.path.join(parent_of(path), file.name) for file in manifest.in_place)
        return
    yield path
    if kind == "onnx":
        yield from read_skeleton(path).files
    else:
        yield from (os.path.join(os.path.dirname(path), name) for name in read_header(path).external_files)
