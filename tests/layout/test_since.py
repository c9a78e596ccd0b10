# SPDX-License-Identifier: Apache-2.0
"""layout/lower/since.cc against ONNX's own definitions: when each operator and attribute of the lowering table appeared."""

import pathlib
import re

import onnx.defs

LOWER = pathlib.Path(__file__).resolve().parents[2] / "layout" / "lower"
NEWEST = int(re.search(r"kNewestOpset = (\d+)", (LOWER / "since.h").read_text())[1])

# Not ONNX's: ONNX Runtime registers it in ONNX's domain.
FOREIGN = {"SimplifiedLayerNormalization"}


def lowered_operators():
    return set(re.findall(r'ROW\("", "(\w+)"', (LOWER / "table.cc").read_text())) - FOREIGN


def defined():
    """{(operator, attribute or ''): first opset} without those of the first opset, or of the operator's own."""
    versions = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= NEWEST:
            versions.setdefault(schema.name, {})[schema.since_version] = set(schema.attributes)
    rows = {}
    for operator in lowered_operators() & set(versions):  # the ONNX that is installed may be older than kNewestOpset
        first = min(versions[operator])
        if first > 1:
            rows[operator, ""] = first
        seen = {}
        for version in sorted(versions[operator]):
            for attribute in versions[operator][version]:
                seen.setdefault(attribute, version)
        rows |= {(operator, attribute): version for attribute, version in seen.items() if version > first}
    return rows


def test_rows_are_onnxs_definitions():
    rows = re.findall(r'ROW\("(\w+)", "(\w*)", (\d+)\)', (LOWER / "since.cc").read_text())
    newest = onnx.defs.onnx_opset_version()
    assert {(op, attribute): int(since) for op, attribute, since in rows if int(since) <= newest} == defined()
