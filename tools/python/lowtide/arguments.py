# SPDX-License-Identifier: Apache-2.0
"""Python values as arguments of the program. Wrong types are TypeError before a child starts; values are the program's to judge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Union

from .errors import Usage

PathLike = Union[str, "os.PathLike[str]"]
_NO_LISTS = (str, bytes, bytearray, memoryview)  # sequences, those of bytes even of int


def checked_path(name: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path (str or os.PathLike), not {type(value).__name__}")
    path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path of str, not of {type(path).__name__}")
    _without_nul(name, path)
    return path


def _without_nul(name: str, text: str) -> str:
    if "\0" in text:
        raise ValueError(f"{name} has a NUL character")
    return text


def checked_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return _without_nul(name, value)


def _number(name: str, value: object) -> str:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    return str(value.__index__())


def _size(name: str, value: object) -> str:
    return checked_text(name, value) if isinstance(value, str) else _number(name, value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return value


def _texts(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [_without_nul(name, value)]
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a str or a sequence of str, not {type(value).__name__}")
    return [checked_text(f"{name}[{i}]", text) for i, text in enumerate(value)]


def checked_mapping(name: str, value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    for key in value:
        checked_text(f"a key of {name}", key)
    return value


def _shapes(value: object) -> list[str]:
    lines = []
    for key, extents in checked_mapping("shape", value).items():
        if isinstance(extents, _NO_LISTS) or not isinstance(extents, Sequence):
            raise TypeError(f"shape[{key!r}] must be a sequence of int, not {type(extents).__name__}")
        if not extents:
            raise Usage(
                f"shape[{key!r}] has no extents: leave out an input that is a scalar, whose shape is known", input=key
            )
        lines.append(key + "=" + ",".join(_number(f"shape[{key!r}][{i}]", n) for i, n in enumerate(extents)))
    return lines


def _dims(value: object) -> list[str]:
    return [key + "=" + _number(f"dim[{key!r}]", extent) for key, extent in checked_mapping("dim", value).items()]


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
    for key, constant in checked_mapping("const", value).items():
        name = f"const[{key!r}]"
        if isinstance(constant, (str, os.PathLike)):
            lines.append(key + "=" + checked_path(name, constant))
        else:
            lines += [key + "=" + text for text in _numbers(name, constant)]
    return lines


def _layouts(value: object) -> list[str]:
    return [
        key + "=" + checked_text(f"layout[{key!r}]", order) for key, order in checked_mapping("layout", value).items()
    ]


def _one(checked: Callable[[str, Any], str]) -> Callable[[str, Any], list[str]]:
    return lambda name, value: [checked(name, value)]


def to_arguments(given: Mapping[str, Any]) -> list[str]:
    """--name=value for every keyword that is not None or False."""
    forms: dict[str, Callable[[str, Any], list[str]]] = {
        "max_rss": _one(_size),
        "shape": lambda name, value: _shapes(value),
        "dim": lambda name, value: _dims(value),
        "const": lambda name, value: _constants(value),
        "outputs": _texts,
        "input_uint8": _texts,
        "mean": _numbers,
        "std": _numbers,
        "labels": _one(checked_path),
        "signature": _one(checked_text),
        "layout": lambda name, value: _layouts(value),
        "for": _one(checked_text),
        "threads": _one(_number),
        "weights": _one(checked_text),
        "weights_include": _texts,
        "weights_exclude": _texts,
        "quantize": _one(checked_text),
        "ranges": _one(checked_path),
        "range": _one(checked_text),
        "equalize": _one(checked_text),
        "correct": _one(checked_text),
        "keep_float": _texts,
        "custom_ops": _one(checked_text),
        "custom_ops_map": _one(checked_path),
        "zstd_level": _one(_number),
        "opset": _one(_number),
        "max_zstd_ratio": _one(_number),
        "io": _texts,
        "report": _one(checked_path),
        "html": _one(checked_path),
        "output": _one(checked_path),
        "log": _one(checked_path),
        "follow_links": _one(checked_path),
        "dump_after": _one(checked_text),
        "target": _one(checked_path),
        "prefer": _one(checked_text),
        "max_piece": _one(_size),
        "max_pieces": _one(_number),
        "penalty": _one(_scalar),
        "costs": _one(checked_path),
        "exclude_op": _texts,
        "exclude_node": _texts,
        "value": lambda name, value: [
            f"{key}={checked_text(name, given)}" for key, given in checked_mapping(name, value).items()
        ],
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


def positional(path: str) -> str:
    """A path that cannot be taken for an option."""
    return os.path.join(".", path) if path.startswith("-") else path
