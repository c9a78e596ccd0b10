"""The shape of the tree, checked: needs nothing but Python's own library.

    python3 tests/layers/check.py

Includes point left only (stream <- layout <- emit <- tools; bench stands on stream), includes name a file from the
root, headers say `#pragma once` and open no namespace, files open with a comment, no file is longer than 800 lines or
has a name that says nothing, no unfinished work is marked, and the C++ is formatted. The last line is
`N passed, N failed`: one for each rule.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

MAY_INCLUDE = {
    "schemas": set(),
    "stream": {"schemas", "stream"},
    "layout": {"schemas", "stream", "layout"},
    "emit": {"schemas", "stream", "layout", "emit"},
    "bench": {"schemas", "stream", "bench"},
    "tools": {"schemas", "stream", "layout", "emit", "bench", "tools"},
}
GENERATED = {"schemas/onnx.pb.h", "schemas/tflite_generated.h"}
MEANINGLESS = {"util", "utils", "common", "misc", "helper", "helpers", "manager", "managers"}
LONGEST = 800
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def tracked():
    """What git knows or would add; everything else (build trees) is nobody's source."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.splitlines()
    return [path for path in map(pathlib.PurePosixPath, listed) if (ROOT / path).is_file()]


def is_script(path):
    with open(ROOT / path, "rb") as file:
        return file.read(2) == b"#!"


FILES = tracked()
CPP = [p for p in FILES if p.suffix in (".cc", ".h")]
SOURCES = [p for p in FILES if p.suffix in (".cc", ".h", ".py", ".inc") or (not p.suffix and is_script(p))]
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


def includes_name_a_file_from_the_root():
    for path in CPP:
        for target in INCLUDE.findall(TEXT[path]):
            if target not in GENERATED and not (ROOT / target).is_file():
                yield f"{path} includes {target}, which is no file from the root"


def headers_are_guarded():
    for path in CPP:
        if path.suffix == ".h" and "#pragma once" not in TEXT[path]:
            yield f"{path} has no #pragma once"


def headers_open_no_namespace():
    for path in CPP:
        if path.suffix == ".h" and re.search(r"^\s*using namespace\b", TEXT[path], re.MULTILINE):
            yield f"{path} says using namespace"


def headers_say_what_they_are():
    for path in CPP:
        if path.suffix == ".h" and not TEXT[path].startswith("//"):
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


CLANG_FORMAT = "clang-format-14"


def code_is_formatted():
    program = shutil.which(CLANG_FORMAT)
    done = subprocess.run([program, "--dry-run", "-Werror", *map(str, CPP)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        for path in sorted({line.split(":")[0] for line in done.stderr.splitlines() if "clang-format-violations" in line}):
            yield f"{path}: run clang-format-14 -i"


RULES = [includes_point_left, includes_name_a_file_from_the_root, headers_are_guarded, headers_open_no_namespace,
         headers_say_what_they_are, names_say_something, files_are_short, nothing_is_marked_unfinished,
         code_is_formatted]


def main():
    failed = 0
    rules, skipped = RULES, ""
    if shutil.which(CLANG_FORMAT) is None:
        print(f"{CLANG_FORMAT} is not installed: formatting is not checked")
        rules, skipped = [rule for rule in RULES if rule is not code_is_formatted], ", 1 skipped"
    for rule in rules:
        faults = list(rule())
        failed += bool(faults)
        for fault in faults:
            print(f"{rule.__name__}: {fault}")
    print(f"{len(rules) - failed} passed, {failed} failed{skipped}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
