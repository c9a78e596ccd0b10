# SPDX-License-Identifier: Apache-2.0
"""convert, merge, inspect and check: the program's commands as functions. Keyword names are the long options."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import (
    Any,
    Callable,
    Protocol,
    Union,
    runtime_checkable,
)

from .errors import Internal, RefusedNode, Unsupported, Usage
from .events import Done, Progress, parse_event
from .output_path import temporary_folder, writing
from .program import Child, Finished, Program, examine, failure, find_program

PathLike = Union[str, "os.PathLike[str]"]
_NO_LISTS = (str, bytes, bytearray, memoryview)  # sequences, those of bytes even of int


@runtime_checkable
class SerializableModel(Protocol):
    """What is taken of an `onnx.ModelProto`."""

    def SerializeToString(self) -> bytes:
        """The model as the bytes of an .onnx file."""


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What a conversion did.

    Attributes
    ----------
    output : pathlib.Path or None
        The file that was written; None with `dry_run`.
    report : dict
        The figures of the report (schemas/report.schema.json), with `peak_rss` of the program in bytes and much else.
    listing : str
        The graph after the pass `dump_after`; empty without it.
    """

    output: pathlib.Path | None
    report: dict[str, Any]
    listing: str = ""


# ---- Arguments: wrong types are TypeError before a child starts; values are the program's to judge -------------------


def _path(name: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path (str or os.PathLike), not {type(value).__name__}")
    path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path of str, not of {type(path).__name__}")
    _no_nul(name, path)
    return path


def _no_nul(name: str, text: str) -> str:
    if "\0" in text:
        raise ValueError(f"{name} has a NUL character")
    return text


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return _no_nul(name, value)


def _number(name: str, value: object) -> str:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    return str(value.__index__())


def _size(name: str, value: object) -> str:
    return _text(name, value) if isinstance(value, str) else _number(name, value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return value


def _texts(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [_no_nul(name, value)]
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a str or a sequence of str, not {type(value).__name__}")
    return [_text(f"{name}[{i}]", text) for i, text in enumerate(value)]


def _mapping(name: str, value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    for key in value:
        _text(f"a key of {name}", key)
    return value


def _shapes(value: object) -> list[str]:
    lines = []
    for key, extents in _mapping("shape", value).items():
        if isinstance(extents, _NO_LISTS) or not isinstance(extents, Sequence):
            raise TypeError(f"shape[{key!r}] must be a sequence of int, not {type(extents).__name__}")
        if not extents:
            raise Usage(
                f"shape[{key!r}] has no extents: leave out an input that is a scalar, whose shape is known", input=key
            )
        lines.append(key + "=" + ",".join(_number(f"shape[{key!r}][{i}]", n) for i, n in enumerate(extents)))
    return lines


def _dims(value: object) -> list[str]:
    return [key + "=" + _number(f"dim[{key!r}]", extent) for key, extent in _mapping("dim", value).items()]


def _scalar(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) or hasattr(value, "__float__") and not hasattr(value, "__index__"):
        return repr(float(value))
    return _number(name, value)


def _without_array(name: str, value: Any) -> Any:
    """An array as what it has: a number, or a list of them."""
    if isinstance(value, _NO_LISTS) or not (hasattr(value, "tolist") and hasattr(value, "ndim")):
        return value
    if value.ndim > 1:
        raise TypeError(f"{name} must be a number or a sequence of numbers, not an array of {value.ndim} dimensions")
    return value.tolist()


def _numbers(name: str, value: object) -> list[str]:
    given = _without_array(name, value)
    if isinstance(given, Sequence) and not isinstance(given, _NO_LISTS):
        return [
            ",".join(_scalar(f"{name}[{i}]", _without_array(f"{name}[{i}]", number)) for i, number in enumerate(given))
        ]
    return [_scalar(name, given)]


def _constants(value: object) -> list[str]:
    lines = []
    for key, constant in _mapping("const", value).items():
        name = f"const[{key!r}]"
        if isinstance(constant, (str, os.PathLike)):
            lines.append(key + "=" + _path(name, constant))
        else:
            lines += [key + "=" + text for text in _numbers(name, constant)]
    return lines


def _layouts(value: object) -> list[str]:
    return [key + "=" + _text(f"layout[{key!r}]", order) for key, order in _mapping("layout", value).items()]


def _arguments(given: Mapping[str, Any]) -> list[str]:
    """--name=value for every keyword that is not None or False."""
    forms: dict[str, Callable[[str, Any], list[str]]] = {
        "max_rss": lambda name, value: [_size(name, value)],
        "shape": lambda name, value: _shapes(value),
        "dim": lambda name, value: _dims(value),
        "const": lambda name, value: _constants(value),
        "outputs": _texts,
        "input_uint8": _texts,
        "mean": lambda name, value: _numbers(name, value),
        "std": lambda name, value: _numbers(name, value),
        "labels": lambda name, value: [_path(name, value)],
        "signature": lambda name, value: [_text(name, value)],
        "layout": lambda name, value: _layouts(value),
        "for": lambda name, value: [_text(name, value)],
        "threads": lambda name, value: [_number(name, value)],
        "weights": lambda name, value: [_text(name, value)],
        "weights_include": _texts,
        "weights_exclude": _texts,
        "quantize": lambda name, value: [_text(name, value)],
        "ranges": lambda name, value: [_path(name, value)],
        "range": lambda name, value: [_text(name, value)],
        "equalize": lambda name, value: [_text(name, value)],
        "correct": lambda name, value: [_text(name, value)],
        "keep_float": _texts,
        "custom_ops": lambda name, value: [_text(name, value)],
        "custom_ops_map": lambda name, value: [_path(name, value)],
        "zstd_level": lambda name, value: [_number(name, value)],
        "opset": lambda name, value: [_number(name, value)],
        "max_zstd_ratio": lambda name, value: [_number(name, value)],
        "io": _texts,
        "report": lambda name, value: [_path(name, value)],
        "html": lambda name, value: [_path(name, value)],
        "output": lambda name, value: [_path(name, value)],
        "log": lambda name, value: [_path(name, value)],
        "follow_links": lambda name, value: [_path(name, value)],
        "dump_after": lambda name, value: [_text(name, value)],
        "target": lambda name, value: [_path(name, value)],
        "prefer": lambda name, value: [_text(name, value)],
        "max_piece": lambda name, value: [_size(name, value)],
        "max_pieces": lambda name, value: [_number(name, value)],
        "penalty": lambda name, value: [_scalar(name, value)],
        "costs": lambda name, value: [_path(name, value)],
        "exclude_op": _texts,
        "exclude_node": _texts,
        "value": lambda name, value: [f"{key}={_text(name, given)}" for key, given in _mapping(name, value).items()],
        "from": _texts,
        "to": _texts,
    }
    out: list[str] = []
    for keyword, value in given.items():
        name = keyword.rstrip("_")  # for_ and from_ are words of Python
        option = "--" + name.replace("_", "-")
        if value is None:
            continue
        if name in forms:
            out += [f"{option}={text}" for text in forms[name](name, value)]
        elif _flag(name, value):
            out.append(option)
    return out


def _positional(path: str) -> str:
    """A path that cannot be taken for an option."""
    return os.path.join(".", path) if path.startswith("-") else path


# ---- Running -------------------------------------------------------------------------------------------------------


def _run(program: Program, child: Child, on_line: Callable[[bytes], None] | None = None) -> Finished:
    finished = child.run(on_line)
    if finished.status != 0:
        raise failure(finished)
    return finished


def _child(program: Program, arguments: list[str]) -> Child:
    if "errors" in program.options:
        arguments = [*arguments, "--errors=json"]
    return Child(program, arguments)


@contextlib.contextmanager
def _as_file(model: object, output: PathLike | None) -> Iterator[str]:
    """The path of a model; one that is in memory is written beside the output for as long as the program reads it."""
    if isinstance(model, (str, os.PathLike)):
        yield _path("model", model)
        return
    if not isinstance(model, SerializableModel):
        raise TypeError(f"model must be a path (str or os.PathLike) or an onnx.ModelProto, not {type(model).__name__}")
    if output is None:
        raise TypeError("output is needed: the model has no name of its own")
    out = _path("output", output)
    if os.path.isdir(out) or out.endswith("/"):
        raise Usage(f"{out}: is a folder, and the model has no name of its own: give the name of a file", file=out)
    folder = os.path.dirname(os.path.abspath(out))
    content = model.SerializeToString()
    with writing(out):
        number, path = tempfile.mkstemp(dir=folder, prefix=".lowtide-", suffix=".onnx")
    try:
        with writing(path), open(number, "wb") as file:
            file.write(content)
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _add_nodes(error: Unsupported, report: PathLike) -> None:
    """Takes the refused nodes from the report, which the program writes for them too."""
    if error.nodes or not os.path.isfile(report) or not os.fspath(report).endswith(".json"):
        return
    values = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))
    names = [field.name for field in dataclasses.fields(RefusedNode)]
    error.nodes = tuple(
        RefusedNode(**{name: node[name] for name in names if name in node}) for node in values.get("refused") or ()
    )
    if len(error.nodes) == 1:
        node = error.nodes[0]
        error.node, error.operator, error.reason, error.hint = node.node, node.operator, node.reason, node.hint
    error.file = error.file or values.get("input")


class _WritingCall:
    """One call of a command that writes a TFLite file; another thread may interrupt its child."""

    command: str

    def __init__(self, options: dict[str, Any], progress: Callable[[Progress], None] | None) -> None:
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable, not {type(progress).__name__}")
        self._options, self._progress = options, progress
        self._extra = _arguments(options)
        self._program = examine(find_program())
        if progress is not None and "progress-fd" not in self._program.options:
            raise Usage(
                f"progress is not offered by {self._program.path} (version {self._program.version}): "
                f"its {self.command} has no --progress-fd"
            )
        self._done: Done | None = None
        self._child: Child | None = None
        self._stopped = False

    def _models(self, stack: contextlib.ExitStack) -> list[str]:
        """The models as arguments; files that are made for them live as long as `stack`."""
        raise NotImplementedError

    def interrupt(self) -> None:
        self._stopped = True
        if self._child is not None:
            self._child.interrupt()

    def _on_line(self, line: bytes) -> None:
        try:
            event = parse_event(line)
        except ValueError as error:
            raise Internal(f"the program wrote a line to --progress-fd that cannot be read: {error}") from error
        if isinstance(event, Progress) and self._progress is not None:
            self._progress(event)
        if isinstance(event, Done):
            self._done = event

    def run(self) -> Conversion:
        with contextlib.ExitStack() as stack:
            arguments = [self.command, *self._models(stack), "--quiet", *self._extra]
            report = self._options["report"]
            # The figures come with the last line of --progress-fd; a program that has none writes them to a file.
            listens = "progress-fd" in self._program.options
            if report is None and not listens:
                report = os.path.join(stack.enter_context(temporary_folder()), "report.json")
                arguments.append(f"--report={report}")
            self._child = _child(self._program, arguments)
            if self._stopped:
                self._child.interrupt()
            try:
                finished = _run(self._program, self._child, self._on_line if listens else None)
            except Unsupported as error:
                if report is not None:
                    _add_nodes(error, report)
                raise
            if self._done is not None:
                values = self._done.report
            elif report is not None:
                values = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))
            else:
                raise Internal("the program did not write the line 'done' to --progress-fd")
        output = None if self._options["dry_run"] else pathlib.Path(values["output"])
        return Conversion(output, values, finished.stdout if self._options.get("dump_after") is not None else "")


class _ConvertCall(_WritingCall):
    command = "convert"

    def __init__(self, model: object, options: dict[str, Any], progress: Callable[[Progress], None] | None) -> None:
        if not isinstance(model, (str, os.PathLike, SerializableModel)):
            raise TypeError(
                f"model must be a path (str or os.PathLike) or an onnx.ModelProto, not {type(model).__name__}"
            )
        self._model = model
        super().__init__(options, progress)

    def _models(self, stack: contextlib.ExitStack) -> list[str]:
        return [_positional(stack.enter_context(_as_file(self._model, self._options["output"])))]


class _MergeCall(_WritingCall):
    command = "merge"

    def __init__(self, models: object, options: dict[str, Any], progress: Callable[[Progress], None] | None) -> None:
        self._given = [
            _text("a key of models", name) + "=" + _path(f"models[{name!r}]", path)
            for name, path in _mapping("models", models).items()
        ]
        super().__init__(options, progress)

    def _models(self, stack: contextlib.ExitStack) -> list[str]:
        return self._given


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
    return _ConvertCall(model, options, progress).run()


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


def _prepared(model: PathLike | SerializableModel, output: PathLike | None, **options: Any) -> _ConvertCall:
    defaults: dict[str, Any] = convert.__kwdefaults__ or {}
    unknown = sorted(set(options) - set(defaults))
    if unknown:
        raise TypeError(f"convert_async() got an unexpected keyword argument '{unknown[0]}'")
    merged: dict[str, Any] = {"output": output, **defaults, **options}
    progress = merged.pop("progress")
    return _ConvertCall(model, merged, progress)


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
    return _MergeCall(models, options, progress).run()


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
    path = _positional(_path("file", file))
    extra = _arguments({"custom": custom, "html": html, "follow_links": follow_links, "max_zstd_ratio": max_zstd_ratio})
    program = examine(find_program())
    finished = _run(program, _child(program, ["inspect", "--json", path, *extra]))
    listing = json.loads(finished.stdout)
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
    paths: tuple[str, ...] = tuple(_positional(_path(name, options.pop(name))) for name in ("model", "tflite"))
    extra = _arguments(options)
    program = examine(find_program())
    _run(program, _child(program, ["check", *paths, "--quiet", *extra]))
