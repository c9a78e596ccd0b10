# SPDX-License-Identifier: Apache-2.0
"""The letters of the lowering table against ONNX's own definitions: what any version of an operator takes must fit."""

import collections
import pathlib
import re

import pytest
from onnx import defs

TABLE = (pathlib.Path(__file__).resolve().parents[2] / "layout/lower/table.cc").read_text()
ROWS = re.findall(r'ROW\("([^"]*)", "([^"]+)", "([^"]+)",', TABLE)
INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
FLOATS = {
    "float",
    "double",
    "float16",
    "bfloat16",
    "float4e2m1",
    "float8e4m3fn",
    "float8e4m3fnuz",
    "float8e5m2",
    "float8e5m2fnuz",
    "float8e8m0",
}
KINDS = {"f": FLOATS, "i": INTEGERS, "n": FLOATS | INTEGERS, "b": {"bool"}}


VERSIONS = collections.defaultdict(list)
for version in defs.get_all_schemas_with_history():
    VERSIONS[version.domain, version.name].append(version)


def test_the_table_is_read():
    assert len(ROWS) == TABLE.count('ROW("') > 200


@pytest.mark.parametrize("kind", KINDS)
def test_every_allowed_type_fits(kind):
    for domain, name, letters in ROWS:
        for schema in VERSIONS[domain, name] if kind in letters else []:
            for i, operand in enumerate(schema.inputs):
                if letters[min(i, len(letters) - 1)] == kind:
                    types = {re.sub(r"tensor\((.*)\)", r"\1", text) for text in operand.types}
                    assert types <= KINDS[kind], f"{name}-{schema.since_version}, input {i}"
