# SPDX-License-Identifier: Apache-2.0
"""`lowtide doctor` of the Python package: what the program finds, and the Python packages beside it."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Sequence

from .output_path import print_output
from .program import examine, find_program

# The least versions of pyproject.toml; without them, running models is what is missing, not converting.
PACKAGES = {"numpy": "1.23", "ai-edge-litert": "2.1.4", "onnxruntime": "1.20"}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def packages() -> tuple[dict[str, str], list[dict[str, str]]]:
    """What is installed of each package, and what is wrong with it: name -> version, and the problems."""
    found, problems = {"python": sys.version.split()[0]}, []
    for name, least in PACKAGES.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed: lowtide run needs it (pip install 'lowtide[run]')"
            continue
        found[name] = version
        if _numbers(version) < _numbers(least):
            problems.append({"name": name, "what_to_do": f"install {least} or newer: pip install 'lowtide[run]'"})
    return found, problems


def main(argv: Sequence[str]) -> int:
    """Runs the program's command and adds the packages; returns its exit status, or 3 for a package that is too old."""
    program = [str(examine(find_program()).path), "doctor", *argv]
    if any(argument in ("-h", "--help") for argument in argv):
        return subprocess.run(program).returncode
    found, problems = packages()
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True)
    if "--json" in argv and done.stdout:
        values = json.loads(done.stdout)
        values["findings"].update(found)
        values["problems"] += problems
        print_output(json.dumps(values, indent=2))
    else:
        if done.stdout:
            print_output(done.stdout.removesuffix("\n"))
            for name, value in found.items():
                print_output(f"{name:<22} {value}")
                for problem in problems:
                    if problem["name"] == name:
                        print_output(f"{'':<22} problem: {problem['what_to_do']}")
    return done.returncode or (3 if problems else 0)
