# SPDX-License-Identifier: Apache-2.0
"""Options of custom operators in a damaged file: a problem is named, nothing is read outside of them."""

import json
import random
import struct

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import Builder

from tests.custom import files, models
from tests.custom.test_convert import converted
from tests.support import converter


def with_options(path, options, out):
    """The file with other options for its one operator."""
    model = files.read(path)
    model.subgraphs[0].operators[0].customOptions = list(options)
    builder = Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    out.write_bytes(builder.Output())
    return out


def listed(path):
    done = converter.run("inspect", "--custom", "--json", path)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["custom_operators"]


def vector(levels):
    """Vectors of two elements, both of which are the vector before: 2 ** levels values in 6 bytes a level."""
    out = bytearray([0, 0, 0])  # an empty vector
    at = 1
    for _ in range(levels):
        out += bytes([2])
        here = len(out)
        out += bytes([here - at, here + 1 - at, 10 << 2, 10 << 2])
        at = here
    return bytes(out + bytes([len(out) - at, 10 << 2, 1]))


# The last bytes are the root's value, its type and width, and the bytes of its value.
HOSTILE = {
    "too short": (b"\0\1", "it is too short"),
    "a width of three": (b"\0\0\0\4\3", "its root has the width 3"),
    "a root that is cut": (b"\0\4\x08", "too short for its root"),
    "an unknown type": (b"\0\0" + bytes([63 << 2, 1]), "is no type"),
    "an offset in front of the buffer": (bytes([200, 9 << 2, 1]), "leads out of it"),
    "a string without a count": (bytes([0, 5 << 2, 1]), "has no count"),
    "a string longer than the buffer": (bytes([99, 65, 1, 5 << 2, 1]), "99 elements"),
    "a key without an end": (b"\1" + bytes([1, 4 << 2, 1]), None),
    "a map without keys": (bytes([0, 0, 2, 9 << 2, 1]), "the map at 0 has no keys"),
    "keys of the width seven": (bytes([0, 7, 0, 0, 9 << 2, 1]), "keys of the width 7"),
    "a vector that holds itself": (bytes([1, 0, 10 << 2, 2, 10 << 2, 1]), "deeper than 64"),
    "a vector of a typed vector of vectors": (bytes([1, 2, 3, 1, 15 << 2, 1]), None),
    "as many values as no memory holds": (vector(40), "values"),
    "a float of one byte": (bytes([7, 3 << 2, 1]), "a float of 1 bytes"),
    "a count of eight bytes": (struct.pack("<Q", 2**63) + bytes(8) + bytes([8, (10 << 2) | 3, 1]), "are not in it"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_flexbuffer(name, tmp_path):
    options, message = HOSTILE[name]
    path = converted(models.atan(), tmp_path, "--custom-ops", "allow=Atan")
    (entry,) = listed(with_options(path, options, tmp_path / "bad.tflite"))
    if message is not None:
        assert message in entry["problem"] and entry["attributes"] == {}
    text = converter.run("inspect", "--custom", tmp_path / "bad.tflite")
    assert text.returncode == 0 and "Atan version 1" in text.stdout


def test_changed_bytes(tmp_path):
    """All attribute types, each time with some bytes changed or cut."""
    path = converted(models.all_attributes(), tmp_path, "--custom-ops", "allow")
    (custom,) = files.customs(path)
    chance = random.Random(6)
    problems = 0
    for _ in range(60):
        options = bytearray(custom.options[: chance.choice([len(custom.options), chance.randrange(1, 900)])])
        for _ in range(chance.randrange(1, 12)):
            options[chance.randrange(len(options))] = chance.randrange(256)
        (entry,) = listed(with_options(path, options, tmp_path / "bad.tflite"))
        problems += entry["problem"] != ""
    assert problems > 10


def test_options_that_are_no_map(tmp_path):
    path = converted(models.atan(), tmp_path, "--custom-ops", "allow=Atan")
    (entry,) = listed(with_options(path, bytes([5, 1 << 2, 1]), tmp_path / "five.tflite"))
    assert entry["attributes"] == {"": 5}
    (entry,) = listed(with_options(path, b"", tmp_path / "none.tflite"))
    assert entry["attributes"] == {} and entry["problem"] == ""


def test_shared_options_are_kept_once(tmp_path):
    """Many operators may name one place of a file."""
    path = converted(models.five_unknown(), tmp_path, "--custom-ops", "allow")
    model = files.read(path)
    for op in model.subgraphs[0].operators:
        op.customOptions = np.zeros(3_000_000, np.uint8)
    builder = Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    (tmp_path / "large.tflite").write_bytes(builder.Output())
    done = converter.run("inspect", "--custom", tmp_path / "large.tflite", address_space=2**30)
    assert done.returncode == 0 and "3000000 bytes of options were not read" in done.stdout
    assert model.operatorCodes[0].builtinCode == schema.BuiltinOperator.CUSTOM
