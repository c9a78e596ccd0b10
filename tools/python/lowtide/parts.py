# SPDX-License-Identifier: Apache-2.0
"""extract and partition: parts of a model, by the program. Keyword names are the long options."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from .arguments import PathLike, checked_path, positional, to_arguments
from .program import run_program


@dataclasses.dataclass(frozen=True)
class Partition:
    """What a division did.

    Attributes
    ----------
    output : pathlib.Path or None
        The folder that was written; None with `dry_run`.
    manifest : dict
        Its manifest (schemas/manifest.schema.json); with `dry_run` the division (schemas/division.schema.json).
    listing : str
        What the program prints: the pieces, and with `dry_run` why nodes are where they are.
    """

    output: pathlib.Path | None
    manifest: dict[str, Any]
    listing: str


def partition(
    model: PathLike,
    output: PathLike | None = None,
    *,
    target: PathLike | None = None,
    prefer: str | None = None,
    max_piece: int | str | None = None,
    max_pieces: int | None = None,
    penalty: float | None = None,
    costs: PathLike | None = None,
    weights: str | None = None,
    exclude_op: str | Sequence[str] | None = None,
    exclude_node: str | Sequence[str] | None = None,
    value: Mapping[str, str] | None = None,
    probe: PathLike | None = None,
    dry_run: bool = False,
    max_rss: int | str | None = None,
    max_zstd_ratio: int | None = None,
    follow_links: PathLike | None = None,
) -> Partition:
    """Divides an ONNX model into pieces for TFLite and for ONNX Runtime; `Runner` runs the folder.

    Parameters
    ----------
    model : path
        The ONNX model.
    output : path, optional
        The folder to make; the model's name with .pieces by default.
    target : str or path, optional
        "nnapi", "coreml", "tidl", "onnx" (all of it in ONNX Runtime) or a description (.json) instead of TFLite on the CPU.
    prefer : str, optional
        "cheap", "fewest" or "coverage".
    max_piece : int or str, optional
        The most bytes of weights and the largest activations of a piece.
    max_pieces : int, optional
        The most pieces.
    penalty : float, optional
        How many times slower work outside of the target counts.
    costs : path, optional
        What an earlier division took: the JSON of ``lowtide run DIR --profile --json``.
    weights : str, optional
        "copy" or "in-place".
    exclude_op, exclude_node : str or sequence of str, optional
        What is left in ONNX.
    value : mapping of str to str, optional
        Types that nobody declares: ``{"hidden": "f32[1,64]"}``.
    probe : path, optional
        Arrays by input name (.npz): the model runs once in ONNX Runtime, which tells the types that nobody declares.
    dry_run : bool
        Write nothing.
    max_rss, max_zstd_ratio, follow_links
        As for `convert`.

    Raises
    ------
    Error, TypeError
        As `convert`.
    """
    options = dict(locals())
    path = positional(checked_path("model", options.pop("model")))
    feed = options.pop("probe")
    extra = to_arguments(options)
    if feed is not None:
        from .probe import declarations

        extra += declarations(
            path, checked_path("probe", feed), to_arguments({**options, "output": None, "dry_run": False})
        )
    if dry_run:
        division = json.loads(run_program(["partition", path, *extra, "--json"]).stdout)
        return Partition(None, division, division["listing"])
    finished = run_program(["partition", path, *extra])
    folder = pathlib.Path(output) if output is not None else _default_folder(pathlib.Path(path))
    return Partition(folder, json.loads((folder / "manifest.json").read_text(encoding="utf-8")), finished.stdout)


def _default_folder(model: pathlib.Path) -> pathlib.Path:
    return (model.with_suffix("") if model.suffix == ".zst" else model).with_suffix(".pieces")


def extract(
    model: PathLike,
    output: PathLike,
    *,
    to: str | Sequence[str],
    from_: str | Sequence[str] | None = None,
    value: Mapping[str, str] | None = None,
    weights: str | None = None,
    external_data: bool = False,
    max_rss: int | str | None = None,
    max_zstd_ratio: int | None = None,
    follow_links: PathLike | None = None,
) -> pathlib.Path:
    """Writes the part of an ONNX model between values as an ONNX model.

    Parameters
    ----------
    model, output : path
        The model, and the file to write.
    to, from_ : str or sequence of str
        The outputs and the inputs of the part; by default the inputs are the model's, as far as the part needs them.
    value : mapping of str to str, optional
        Types of these values that the model does not declare: ``{"hidden": "f32[1,n,?]"}``.
    weights : str, optional
        "copy" or "in-place".
    external_data : bool
        Write weights to a file beside the part.
    max_rss, max_zstd_ratio, follow_links
        As for `convert`.

    Returns
    -------
    pathlib.Path
        The output.

    Raises
    ------
    Error, TypeError
        As `convert`.
    """
    options = dict(locals())
    path = positional(checked_path("model", options.pop("model")))
    begin = options.pop("from_")
    extra = to_arguments({"from": begin, **options})
    run_program(["extract", path, "--quiet", *extra])
    return pathlib.Path(output)
