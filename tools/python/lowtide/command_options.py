# SPDX-License-Identifier: Apache-2.0
"""The options of the commands that are Python: a parser whose errors read as the program's, and types of values."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Sequence
from typing import Any, Callable, NoReturn, TypeVar

from . import memory
from .errors import Usage

_Value = TypeVar("_Value")
_REQUIRED = "the following arguments are required: "
_EXCLUDED = "not allowed with argument "
_REPEATED = "is given more than once"


def whole_number(least: int) -> Callable[[str], int]:
    """A type for `add_argument`: a decimal number of at least `least`."""

    def read(text: str) -> int:
        if re.fullmatch("[0-9]{1,18}", text) is None or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return read


def number(most: float = math.inf) -> Callable[[str], float]:
    """A type for `add_argument`: a finite number from 0 to `most`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= most or math.isinf(value):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number {'of at least 0' if math.isinf(most) else f'from 0 to {most:g}'}"
            )
        return value

    return read


def given_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """A type for `add_argument`: x=1,3,512,512 as a name and extents."""
    name, _, extents = text.rpartition("=")
    if not name or re.fullmatch("(?:[0-9]{1,18}(?:,[0-9]{1,18})*)?", extents) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not INPUT=EXTENTS such as x=1,3,512,512")
    return name, tuple(int(extent) for extent in extents.split(",")) if extents else ()


def given_layout(text: str) -> tuple[str, str]:
    """A type for `add_argument`: x=nhwc as a name and a layout."""
    name, _, order = text.rpartition("=")
    if not name or not order:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=LAYOUT such as x=nhwc")
    return name, order


def by_name(option: str, given: Sequence[tuple[str, _Value]]) -> dict[str, _Value]:
    """What was given for each name.

    Raises
    ------
    Usage
        For a name that is given twice.
    """
    out: dict[str, _Value] = {}
    for name, value in given:
        if name in out:
            raise Usage(f"{option} {name} is given twice")
        out[name] = value
    return out


def given_size(text: str) -> str:
    """A type for `add_argument`: a size such as 64M, left as it is."""
    try:
        memory.size("", text)
    except Usage:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 64M or 0.5G") from None
    return text


def one_of(names: Sequence[str]) -> dict[str, Any]:
    """The keywords `type` and `metavar` of `add_argument` for one of these names."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(names)}")
        return text

    return {"type": read, "metavar": "{" + ",".join(names) + "}"}


def _explained(error: argparse.ArgumentError) -> str:
    """What is wrong, in the program's words."""
    name = (error.argument_name or "").rsplit("/", 1)[-1]  # of "-o/--output" the long one
    if error.message.startswith("expected "):
        return f"option '{name}' needs a value"
    if error.message.startswith("ignored explicit argument "):
        return f"option '{name}' takes no value"
    if error.message == _REPEATED:
        return f"option '{name}' {_REPEATED}"
    if error.message.startswith(_EXCLUDED):
        return f"options '{error.message[len(_EXCLUDED) :]}' and '{name}' exclude each other"
    return f"{name}: {error.message}" if name else error.message


class _Once(argparse.Action):
    """An option with one value: argparse itself would use the last of several."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        assert isinstance(parser, CommandParser)
        if self.option_strings:
            if self.dest in parser.given:
                raise argparse.ArgumentError(self, _REPEATED)
            if values == "":
                raise argparse.ArgumentError(self, "the value is empty")
            parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


class CommandParser(argparse.ArgumentParser):
    """The parser of one command; use `parse`, which raises `Usage` and never exits but for --help.

    Parameters
    ----------
    command : str
        Its name, such as "run".
    description, example : str
        For --help.
    """

    def __init__(self, command: str, *, description: str, example: str) -> None:
        super().__init__(
            prog=f"lowtide {command}",
            description=description,
            epilog=f"example: {example}",
            allow_abbrev=False,
            exit_on_error=False,
        )
        self.register("action", None, _Once)  # of an option for which no other action is chosen
        self.given: set[str] = set()

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """The arguments.

        Raises
        ------
        Usage
            What is wrong, and what would be right.
        """
        options = list(argv[: argv.index("--")] if "--" in argv else argv)
        names = {name for action in self._actions for name in action.option_strings}
        for text in options:  # before what is missing: a misspelt option is the cause of that
            if text.startswith("--") and text.split("=", 1)[0] not in names:
                self._refuse_unknown(text)
        arguments, rest = self.parse_known(argv)
        for text in rest:
            if text.startswith("-") and len(text) > 1:
                self._refuse_unknown(text)
            raise Usage(f"unexpected argument {text!r} (usage: {self._usage()})")
        return arguments

    def parse_known(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The arguments, and those that are unknown here.

        Raises
        ------
        Usage
            As `parse`, but for what is unknown.
        """
        self.given.clear()
        try:
            return self.parse_known_args(argv)
        except argparse.ArgumentError as error:
            if error.message.startswith(_REQUIRED):
                self.error(error.message)
            raise Usage(_explained(error)) from error

    def error(self, message: str) -> NoReturn:
        """Of argparse, which calls it for arguments that are missing (before 3.13; `parse` does so since)."""
        if not message.startswith(_REQUIRED):
            raise Usage(f"{message} (see {self.prog} --help)")
        name = message[len(_REQUIRED) :].split(", ", 1)[0].rsplit("/", 1)[-1]
        raise Usage(f"{self._shown(name)} is missing (usage: {self._usage()})")

    def _refuse_unknown(self, text: str) -> NoReturn:
        name = text.split("=", 1)[0]
        long_names = [option[2:] for action in self._actions for option in action.option_strings if option[:2] == "--"]
        near = difflib.get_close_matches(name.lstrip("-"), long_names, 1)
        hint = f"; did you mean '--{near[0]}'?" if near else f" (see {self.prog} --help)"
        raise Usage(f"unknown option '{name}'{hint}")

    @staticmethod
    def _shown(name: str) -> str:
        return f"option '{name}'" if name.startswith("-") else name

    def _usage(self) -> str:
        """The positional arguments and the options that must be given."""
        words = [self.prog]
        for action in self._actions:
            if not action.option_strings:
                words.append(str(action.metavar or action.dest))
            elif action.required:
                words.append(f"{action.option_strings[-1]} {action.metavar}")
        return " ".join([*words, "[OPTIONS]"])
