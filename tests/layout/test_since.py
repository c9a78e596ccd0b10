# SPDX-License-Identifier: Apache-2.0
"""layout/lower/since.cc against ONNX's own definitions: when each operator of the
lowering table, its attributes and its inputs appeared."""

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


def newer_inputs():
    """{(operator, index): (name, first opset without it, opset that brings it)}."""
    inputs = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= NEWEST and not schema.deprecated:
            inputs.setdefault(schema.name, {})[schema.since_version] = [entry.name for entry in schema.inputs]
    rows = {}
    for operator in lowered_operators() & set(inputs):
        versions = sorted(inputs[operator])
        for index in range(max(map(len, inputs[operator].values()))):
            lacking = [version for version in versions if len(inputs[operator][version]) <= index]
            later = [version for version in versions if lacking and version > lacking[0] and version not in lacking]
            if later:  # an operator's first form also stands for the opsets before it
                absent_from = 1 if lacking[0] == versions[0] else lacking[0]
                rows[operator, index] = (inputs[operator][later[0]][index], absent_from, later[0])
    return rows


def test_newer_inputs_are_onnxs_definitions():
    rows = re.findall(r'ROW\("(\w+)", (\d+), "(\w+)", (\d+), (\d+)\)', (LOWER / "since.cc").read_text())
    newest = onnx.defs.onnx_opset_version()
    assert {
        (op, int(index)): (name, int(absent), int(since))
        for op, index, name, absent, since in rows
        if int(since) <= newest
    } == newer_inputs()
