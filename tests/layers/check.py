# SPDX-License-Identifier: Apache-2.0
"""The shape of the tree, checked: needs nothing but Python's own library.

    python3 tests/layers/check.py

Includes point left only (stream <- layout <- emit <- tools; bench stands on stream; within stream and layout by
FOLDERS below), no two files include each other, includes name a file from the root, no two files of a library define
one name in anonymous namespaces, headers say `#pragma once` and open no namespace, files open with the licence and a
comment, no file is longer than 800 lines or has a name that says nothing, no unfinished work is marked, and the sources
are formatted. The last line is `N passed, N failed`: one for each rule.
"""

import pathlib
import re
import shutil
import subprocess
import sys

from anonymous_names import defined_names

ROOT = pathlib.Path(__file__).resolve().parents[2]

MAY_INCLUDE = {
    "schemas": set(),
    "stream": {"schemas", "stream"},
    "layout": {"schemas", "stream", "layout"},
    "emit": {"schemas", "stream", "layout", "emit"},
    "bench": {"schemas", "stream", "bench"},
    "tools": {"schemas", "stream", "layout", "emit", "bench", "tools"},
}
# Within a layer: what a folder may include beside itself and the files at the layer's root that PLAIN names.
FOLDERS = {
    "stream/file": set(),
    "stream/recipe": {"stream/file"},
    "stream/onnx": {"stream/file", "stream/recipe"},
    "stream/tflite": {"stream/file", "stream/recipe"},
    "layout/core": set(),
    "layout/lower": {"layout/core"},
    "layout/fuse": {"layout/core"},
    "layout/settle": {"layout/core"},
    "layout/plain": {"layout/core"},
    "layout/quantize": {"layout/core"},
    "layout/legalise": {"layout/core"},
    "layout/weights": {"layout/core"},
    "layout/raise": {"layout/core"},
    "layout/partition": {"layout/core"},
}
# Files at a layer's root that its folders may include: what the whole layer uses.
PLAIN = {
    "stream": {
        "stream/counted.h",
        "stream/dtype.h",
        "stream/error.h",
        "stream/nearest_name.h",
        "stream/printable.h",
        "stream/progress.h",
        "stream/shape.h",
    },
    "layout": set(),
}
# What a whole layer may include of another, where that is not all of it.
ONLY = {("emit", "layout"): "layout/core/"}
GENERATED = {"schemas/onnx.pb.h", "schemas/tflite_generated.h", "schemas/tflite_metadata_generated.h"}
MEANINGLESS = {"util", "utils", "common", "misc", "helper", "helpers", "manager", "managers"}
LONGEST = 800
LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Sources of a library, which are compiled in batches; these folders of it are programs of their own.
LIBRARIES = ("stream/", "layout/", "emit/", "bench/", "tools/library/", "tools/lowtide/")
PROGRAMS = ("bench/micro/", "bench/limit/", "tools/lowtide/main.cc", "tools/lowtide/operator_new.cc")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def tracked():
    """What git knows or would add; everything else (build trees) is not source."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [path for path in map(pathlib.PurePosixPath, listed) if (ROOT / path).is_file()]


def is_script(path):
    with open(ROOT / path, "rb") as file:
        return file.read(2) == b"#!"


FILES = tracked()
CPP = [p for p in FILES if p.suffix in (".cc", ".h")]
SOURCES = [p for p in FILES if p.suffix in (".cc", ".h", ".py", ".inc") or (not p.suffix and is_script(p))]
PYTHON = [str(p) for p in FILES if p.suffix == ".py"]
TEXT = {p: (ROOT / p).read_text(errors="replace") for p in {*CPP, *SOURCES}}


def layer_of(path):
    """The layer whose rules hold for a file; tests of a layer may include what the layer may."""
    parts = path.parts
    if parts[0] == "tests" and len(parts) > 2 and parts[1] in MAY_INCLUDE:
        return parts[1]
    return parts[0] if parts[0] in MAY_INCLUDE else None


def includes_point_left():
    for path in CPP:
        layer = layer_of(path)
        for target in INCLUDE.findall(TEXT[path]):
            top = target.split("/")[0]
            own_test = path.parts[0] == "tests" and top == "tests"
            if layer and top in MAY_INCLUDE and top not in MAY_INCLUDE[layer] and not own_test:
                yield f"{path} includes {target}: {layer} may include only {', '.join(sorted(MAY_INCLUDE[layer]))}"


def folder_of(path):
    """The longest prefix of a path that FOLDERS names; None outside of them."""
    return next((folder for folder in FOLDERS if str(path).startswith(folder + "/")), None)


def phases_stand_apart():
    for path in CPP:
        folder, layer = folder_of(path), path.parts[0]
        for target in INCLUDE.findall(TEXT[path]):
            top = target.split("/")[0]
            if (layer, top) in ONLY and not target.startswith(ONLY[layer, top]):
                yield f"{path} includes {target}: of {top}, {layer} may include only {ONLY[layer, top]}"
            if folder and top == layer:
                other = folder_of(target)
                allowed = {folder} | FOLDERS[folder]
                if other not in allowed if other else target not in PLAIN[layer]:
                    yield f"{path} includes {target}: {folder} may include only {', '.join(sorted(allowed))}"


def files_do_not_include_each_other():
    """A header and the source of the same name are one unit; no unit reaches itself through others."""
    unit = {path: str(path.with_suffix("")) for path in CPP}
    needs = {}
    for path in CPP:
        targets = {str(pathlib.PurePosixPath(t).with_suffix("")) for t in INCLUDE.findall(TEXT[path])}
        needs.setdefault(unit[path], set()).update(targets - {unit[path]})
    state, trail = {}, []

    def visit(name):
        if state.get(name) == "done" or name not in needs:
            return
        if state.get(name) == "open":
            yield " -> ".join(trail[trail.index(name) :] + [name])
            return
        state[name] = "open"
        trail.append(name)
        for target in sorted(needs[name]):
            yield from visit(target)
        trail.pop()
        state[name] = "done"

    for name in sorted(needs):
        yield from visit(name)


# Examples are copied out of the tree: their files stand beside each other.
def includes_name_a_file_from_the_root():
    for path in CPP:
        for target in INCLUDE.findall(TEXT[path]):
            beside = path.parts[0] == "examples" and (ROOT / path.parent / target).is_file()
            if target not in GENERATED and not beside and not (ROOT / target).is_file():
                yield f"{path} includes {target}, which is no file from the root"


def includes_name_headers():
    for path in CPP:
        for target in INCLUDE.findall(TEXT[path]):
            if not target.endswith((".h", ".inc")):
                yield f"{path} includes {target}, which is not a header"


USING = re.compile(r"^\s*(?:using\s+(?:\w+::)+(\w+);|namespace\s+(\w+)\s*=)", re.MULTILINE)


def using_declarations_are_used():
    """clang-tidy looks for these in the main file only, and tools/check gives it batches of files."""
    for path in CPP:
        if path.suffix != ".cc":
            continue
        for declared in USING.finditer(TEXT[path]):
            name = declared[1] or declared[2]
            if len(re.findall(rf"\b{name}\b", TEXT[path])) == len(
                re.findall(rf"using [\w:]*\b{name};|\bnamespace {name} =", TEXT[path])
            ):
                yield f"{path} declares '{name}' and does not use it"


def anonymous_names_are_of_one_file():
    """Files of one library are compiled together: two that define one name do not compile, or one calls the other's."""
    places = {}
    for path in CPP:
        library = next((library for library in LIBRARIES if str(path).startswith(library)), None)
        if path.suffix == ".cc" and library and not str(path).startswith(PROGRAMS):
            for namespace, name, meaning in defined_names(TEXT[path]):
                places.setdefault((library, namespace, name), []).append((str(path), meaning))
    for (_, namespace, name), found in sorted(places.items()):
        is_one_alias = found[0][1] and all(meaning == found[0][1] for _, meaning in found)
        if len({path for path, _ in found}) > 1 and not is_one_alias:
            files = " and ".join(sorted({path for path, _ in found}))
            yield f"{files} define '{name}' in an anonymous namespace of {namespace}: rename one"


def headers_are_guarded():
    for path in CPP:
        if path.suffix == ".h" and "#pragma once" not in TEXT[path]:
            yield f"{path} has no #pragma once"


def headers_open_no_namespace():
    for path in CPP:
        if path.suffix == ".h" and re.search(r"^\s*using namespace\b", TEXT[path], re.MULTILINE):
            yield f"{path} says using namespace"


def files_name_their_licence():
    for path in SOURCES:
        if LICENCE not in "".join(TEXT[path].splitlines(keepends=True)[:2]):
            yield f"{path} does not open with '{LICENCE}'"


def headers_say_what_they_are():
    for path in CPP:
        if path.suffix == ".h" and not TEXT[path].split("\n", 1)[1].startswith("//"):
            yield f"{path} does not open with a comment"


def names_say_something():
    for path in FILES:
        stem_words = set(re.split(r"[_.-]", path.stem.lower()))
        for word in (stem_words | {part.lower() for part in path.parts[:-1]}) & MEANINGLESS:
            yield f"{path}: '{word}' says nothing"


def files_are_short():
    for path in SOURCES:
        lines = TEXT[path].count("\n")
        if lines > LONGEST:
            yield f"{path} has {lines} lines, more than {LONGEST}"


def nothing_is_marked_unfinished():
    for path in SOURCES:
        if path == pathlib.PurePosixPath("tests/layers/check.py"):
            continue
        for number, line in enumerate(TEXT[path].splitlines(), 1):
            if UNFINISHED.search(line):
                yield f"{path}:{number}: {line.strip()}"


def program(name):
    """Of the system, or of the environment that tools/check makes; None when it is not there."""
    return shutil.which(name) or shutil.which(name, path=ROOT / "build/venv/bin")


def lines_of(name, *arguments):
    done = subprocess.run([program(name), *arguments], cwd=ROOT, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def cpp_is_formatted():
    lines = lines_of("clang-format-14", "--dry-run", "-Werror", *map(str, CPP))
    for path in sorted({line.split(":")[0] for line in lines if "clang-format-violations" in line}):
        yield f"{path}: run clang-format-14 -i"


def python_is_formatted():
    for line in lines_of("ruff", "format", "--check", "--output-format=concise", *PYTHON):
        if ": unformatted:" in line:
            yield f"{line.split(':')[0]}: run ruff format"


def python_has_no_findings_of_ruff():
    yield from (
        line for line in lines_of("ruff", "check", "--output-format=concise", *PYTHON) if re.match(r"\S+:\d+:", line)
    )


RULES = [
    includes_point_left,
    phases_stand_apart,
    files_do_not_include_each_other,
    includes_name_a_file_from_the_root,
    includes_name_headers,
    using_declarations_are_used,
    anonymous_names_are_of_one_file,
    headers_are_guarded,
    headers_open_no_namespace,
    files_name_their_licence,
    headers_say_what_they_are,
    names_say_something,
    files_are_short,
    nothing_is_marked_unfinished,
    cpp_is_formatted,
    python_is_formatted,
    python_has_no_findings_of_ruff,
]


NEEDS = {cpp_is_formatted: "clang-format-14", python_is_formatted: "ruff", python_has_no_findings_of_ruff: "ruff"}


def main():
    failed = skipped = 0
    for rule in RULES:
        if rule in NEEDS and not program(NEEDS[rule]):
            print(f"{rule.__name__}: not checked, {NEEDS[rule]} is not installed")
            skipped += 1
            continue
        faults = list(rule())
        failed += bool(faults)
        for fault in faults:
            print(f"{rule.__name__}: {fault}")
    print(f"{len(RULES) - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
