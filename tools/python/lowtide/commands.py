# SPDX-License-Identifier: Apache-2.0
"""convert, merge, inspect and check: the program's commands as functions. Keyword names are the long options."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .arguments import PathLike, checked_path, positional, to_arguments
from .errors import Internal
from .events import Progress
from .program import run_program
from .writing_call import Conversion, ConvertCall, MergeCall, SerializableModel


def convert(
    model: PathLike | SerializableModel,
    output: PathLike | None = None,
    *,
    max_rss: int | str | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    dim: Mapping[str, int] | None = None,
    const: Mapping[str, float | Sequence[float] | PathLike] | None = None,
    outputs: str | Sequence[str] | None = None,
    input_uint8: str | Sequence[str] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    labels: PathLike | None = None,
    metadata: bool = False,
    signature: str | None = None,
    layout: Mapping[str, str] | None = None,
    for_: str | None = None,
    threads: int | None = None,
    weights: str | None = None,
    weights_include: str | Sequence[str] | None = None,
    weights_exclude: str | Sequence[str] | None = None,
    external_buffers: bool = False,
    max_zstd_ratio: int | None = None,
    io: str | Sequence[str] | None = None,
    quantize: str | None = None,
    ranges: PathLike | None = None,
    range: str | None = None,
    per_tensor: bool = False,
    equalize: str | None = None,
    correct: str | None = None,
    keep_float: str | Sequence[str] | None = None,
    require_integer: bool = False,
    tables: bool = False,
    strict_types: bool = False,
    custom_ops: str | None = None,
    custom_ops_map: PathLike | None = None,
    follow_links: PathLike | None = None,
    log: PathLike | None = None,
    zstd_level: int | None = None,
    verify_output: bool = False,
    dry_run: bool = False,
    report: PathLike | None = None,
    dump_after: str | None = None,
    opset: int | None = None,
    external_data: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Conversion:
    """Converts an ONNX model to TFLite, or a TFLite model to ONNX.

    The keywords are the long options of ``lowtide convert``; None and False leave an option out.

    Parameters
    ----------
    model : path or onnx.ModelProto
        The .onnx or .tflite file, or either with .zst. A ModelProto (below 2 GB) is written to a temporary file beside the output, and
        its external data is looked for there.
    output : path, optional
        Where to write. By default the model's name with .tflite or .onnx, beside it; a folder gets a file of that name.
    max_rss : int or str, optional
        Resident memory of the program in bytes, or as text such as "64M".
    shape : mapping of str to sequence of int, optional
        Shapes of inputs: of dynamic ones, or of fixed ones with another batch (axis 0).
    dim : mapping of str to int, optional
        Extents of dynamic dimensions of inputs, by their names.
    const : mapping, optional
        Inputs to freeze: to a number, a sequence of numbers (or an array of one dimension), or the contents of a .npy file.
    outputs : str or sequence of str, optional
        The values that are outputs, instead of the model's own.
    input_uint8 : str or sequence of str, optional
        Inputs that take raw images; the model computes (x - mean) / std itself.
    mean, std : float or sequence of float, optional
        One number, or one for each channel. Without `input_uint8` they are written into the metadata only.
    labels : path, optional
        Text file with a label in each line, stored with the output whose last axis has as many elements.
    metadata : bool
        Write TFLite metadata, and keep the ONNX model's metadata_props; `labels`, `mean` and `std` imply it.
    signature : str, optional
        Name of the signature; of a TFLite model that has several, the one to convert.
    layout : mapping of str to str, optional
        "nhwc" or "nchw" for an input or output.
    for_ : str, optional
        "gpu": operators are also written in forms that a GPU delegate takes and that cost a processor something. FILE.json:
        a description of a target, of TFLite operators or, as for lowtide partition, of ONNX nodes (those that are shipped also by
        name). Either way the report lists what the target does not take.
    threads : int, optional
        Threads that write weights.
    weights : str, optional
        "stored" (the default), "float", "f16", "int8", "int4" or "in-place".
    weights_include, weights_exclude : str or sequence of str, optional
        Patterns of names of weights, or of their nodes, which alone are stored in fewer bits, or are not.
    external_buffers : bool
        Weights behind the flatbuffer whatever the size.
    max_zstd_ratio : int, optional
        Refuse .zst input that decompresses to more than so many times its size; 0 is no limit.
    io : str or sequence of str, optional
        "int8", "uint8" or "float": the type of a quantized model's inputs and outputs. "mmap" or "pread": how the
        model's files are read.
    quantize : str, optional
        "int8" or "int16x8": compute a model of floats in integers.
    ranges : path, optional
        Of `quantize`: what `calibrate` wrote.
    range : str, optional
        How ranges are chosen: "mse", "minmax", or "percentile:99.9". By default what the ranges file says is best, else "mse".
    per_tensor : bool
        One scale for all channels of a weight.
    equalize : str, optional
        "channels": the channels between two convolutions are scaled so that one scale serves all; or "none". By default what
        the ranges file says is best, else "channels".
    correct : str, optional
        "means": what rounded weights add to results on average is taken off the biases; "layers": what the layers before
        add too, as `calibrate` with `correct_layers` measured it; or "none". By default what the ranges file says is best,
        else "means".
    keep_float : str or sequence of str, optional
        Patterns of names of nodes, or of their outputs, that stay in floats.
    require_integer : bool
        Refuse a model of which an operator is computed in floats.
    tables : bool
        Compute functions of 8-bit integers that have no exact integer kernel by tables of 256 entries.
    strict_types : bool
        Refuse a model of which a node is computed in fewer bits than it says: f64 in f32, or i64 in i32.
    custom_ops : str, optional
        "allow" or "allow=Op,domain:Op": nodes that become custom operators, for which the application brings kernels.
    custom_ops_map : path, optional
        A JSON file with names, versions, axis orders and output shapes of custom operators.
    follow_links : path, optional
        Folder inside which symbolic links of external data are followed.
    log : path, optional
        File to which log lines are appended.
    zstd_level : int, optional
        How hard to compress a .tflite.zst.
    verify_output : bool
        Read the file back and compare each weight.
    dry_run : bool
        Write nothing.
    report : path, optional
        Write the report to this file as well: .json, .html, or .nodes.json for Model Explorer.
    dump_after : str, optional
        Name of a pass; the graph after it is `Conversion.listing`.
    opset : int, optional
        Of a TFLite model: the opset of the ONNX model, 17 to 26.
    external_data : bool
        Of a TFLite model: weights go into a file beside the ONNX model.
    progress : callable, optional
        Takes a `Progress` at most ten times a second. If it raises, the conversion ends and leaves nothing.

    Returns
    -------
    Conversion
        Where the file is, and the report.

    Raises
    ------
    Error
        With the kind of docs/errors.md. There is no output then, and no temporary file.
    TypeError
        For an argument of a wrong type, before the program starts.
    """
    options = dict(locals())
    for name in ("model", "progress"):
        del options[name]
    return ConvertCall(model, options, progress).run()


async def convert_async(
    model: PathLike | SerializableModel, output: PathLike | None = None, **options: Any
) -> Conversion:
    """`convert` for asyncio, with the same arguments.

    A task that is cancelled interrupts the program and waits until it has ended. `progress` is called in another
    thread than the event loop's.
    """
    call = _prepared(model, output, **options)
    work = asyncio.get_running_loop().run_in_executor(None, call.run)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        call.interrupt()
        with contextlib.suppress(Exception):
            await work
        raise


def _prepared(model: PathLike | SerializableModel, output: PathLike | None, **options: Any) -> ConvertCall:
    defaults: dict[str, Any] = convert.__kwdefaults__ or {}
    unknown = sorted(set(options) - set(defaults))
    if unknown:
        raise TypeError(f"convert_async() got an unexpected keyword argument '{unknown[0]}'")
    merged: dict[str, Any] = {"output": output, **defaults, **options}
    progress = merged.pop("progress")
    return ConvertCall(model, merged, progress)


def merge(
    models: Mapping[str, PathLike],
    output: PathLike,
    *,
    max_rss: int | str | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    dim: Mapping[str, int] | None = None,
    const: Mapping[str, float | Sequence[float] | PathLike] | None = None,
    outputs: str | Sequence[str] | None = None,
    layout: Mapping[str, str] | None = None,
    for_: str | None = None,
    threads: int | None = None,
    weights: str | None = None,
    weights_include: str | Sequence[str] | None = None,
    weights_exclude: str | Sequence[str] | None = None,
    external_buffers: bool = False,
    max_zstd_ratio: int | None = None,
    io: str | Sequence[str] | None = None,
    require_integer: bool = False,
    tables: bool = False,
    strict_types: bool = False,
    custom_ops: str | None = None,
    custom_ops_map: PathLike | None = None,
    follow_links: PathLike | None = None,
    log: PathLike | None = None,
    zstd_level: int | None = None,
    verify_output: bool = False,
    dry_run: bool = False,
    report: PathLike | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Conversion:
    """Converts several ONNX models to one TFLite file, a signature each; equal weights are stored once.

    The keywords are the long options of ``lowtide merge`` and mean what they mean for `convert`. Names of inputs,
    outputs and dimensions have the signature in front: ``shape={"encode:x": (1, 3)}``.

    Parameters
    ----------
    models : mapping of str to path
        The models by the names of their signatures, at least two.
    output : path
        Where to write.

    Returns
    -------
    Conversion
        Where the file is, and the report.

    Raises
    ------
    Error, TypeError
        As `convert`.
    """
    options = dict(locals())
    for name in ("models", "progress"):
        del options[name]
    return MergeCall(models, options, progress).run()


def inspect(
    file: PathLike,
    *,
    custom: bool = False,
    html: PathLike | None = None,
    follow_links: PathLike | None = None,
    max_zstd_ratio: int | None = None,
) -> dict[str, Any]:
    """Lists a model: operators, tensors, sizes.

    Parameters
    ----------
    file : path
        .onnx or .tflite, or either with .zst.
    custom : bool
        List the custom operators of a TFLite model instead.
    html : path, optional
        A page with sizes and the graph is written to this file, whose name ends in .html.
    follow_links : path, optional
        As for `convert`.
    max_zstd_ratio : int, optional
        As for `convert`.

    Returns
    -------
    dict
        What ``lowtide inspect --json`` prints.

    Raises
    ------
    Error, TypeError
        As `convert`.
    """
    path = positional(checked_path("file", file))
    extra = to_arguments(
        {"custom": custom, "html": html, "follow_links": follow_links, "max_zstd_ratio": max_zstd_ratio}
    )
    listing = json.loads(run_program(["inspect", "--json", path, *extra]).stdout)
    if not isinstance(listing, dict):
        raise Internal("lowtide inspect --json did not print an object")
    return listing


def check(
    model: PathLike,
    tflite: PathLike,
    *,
    max_rss: int | str | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    dim: Mapping[str, int] | None = None,
    const: Mapping[str, float | Sequence[float] | PathLike] | None = None,
    outputs: str | Sequence[str] | None = None,
    input_uint8: str | Sequence[str] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    labels: PathLike | None = None,
    metadata: bool = False,
    signature: str | None = None,
    layout: Mapping[str, str] | None = None,
    for_: str | None = None,
    threads: int | None = None,
    weights: str | None = None,
    weights_include: str | Sequence[str] | None = None,
    weights_exclude: str | Sequence[str] | None = None,
    external_buffers: bool = False,
    max_zstd_ratio: int | None = None,
    io: str | Sequence[str] | None = None,
    quantize: str | None = None,
    ranges: PathLike | None = None,
    range: str | None = None,
    per_tensor: bool = False,
    equalize: str | None = None,
    correct: str | None = None,
    keep_float: str | Sequence[str] | None = None,
    require_integer: bool = False,
    tables: bool = False,
    strict_types: bool = False,
    custom_ops: str | None = None,
    custom_ops_map: PathLike | None = None,
    follow_links: PathLike | None = None,
    log: PathLike | None = None,
) -> None:
    """Compares a TFLite file, to the last byte of each weight, with what an ONNX model converts to.

    The keywords are those of `convert` that the file was made with.

    Raises
    ------
    Different
        If the file is another one; the message lists the differences.
    Error, TypeError
        As `convert`.
    """
    options = dict(locals())
    paths: tuple[str, ...] = tuple(positional(checked_path(name, options.pop(name))) for name in ("model", "tflite"))
    extra = to_arguments(options)
    run_program(["check", *paths, "--quiet", *extra])
