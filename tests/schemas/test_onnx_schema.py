# SPDX-License-Identifier: Apache-2.0
"""schemas/onnx.proto says the same as the descriptor that the `onnx` package carries.

Both are flattened to {path: facts}, so that a difference names the message, field or value it is in.
"""

import pathlib
import shutil
import subprocess

import pytest

onnx_ml_pb2 = pytest.importorskip("onnx.onnx_ml_pb2")
from google.protobuf import descriptor_pb2  # noqa: E402  (needs the check above)

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "schemas" / "onnx.proto"
Field = descriptor_pb2.FieldDescriptorProto


def flatten(file):
    facts = {"package": file.package, "syntax": file.syntax or "proto2"}

    def enum(path, proto):
        facts[path] = "enum"
        for value in proto.value:
            facts[f"{path}.{value.name}"] = value.number

    def message(path, proto):
        facts[path] = "message"
        facts[f"{path} reserved"] = (
            sorted((r.start, r.end) for r in proto.reserved_range),
            sorted(proto.reserved_name),
        )
        for field in proto.field:
            facts[f"{path}.{field.name}"] = {
                "number": field.number,
                "type": Field.Type.Name(field.type),
                "of": field.type_name,
                "label": Field.Label.Name(field.label),
                "packed": field.options.packed,
                "default": field.default_value,
                "oneof": proto.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None,
            }
        for nested in proto.enum_type:
            enum(f"{path}.{nested.name}", nested)
        for nested in proto.nested_type:
            message(f"{path}.{nested.name}", nested)

    for top in file.enum_type:
        enum(top.name, top)
    for top in file.message_type:
        message(top.name, top)
    return facts


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    protoc = shutil.which("protoc")
    if protoc is None:
        pytest.skip("protoc is not installed")
    out = tmp_path_factory.mktemp("schema") / "onnx.desc"
    subprocess.run([protoc, f"-I{SCHEMA.parent}", f"--descriptor_set_out={out}", str(SCHEMA)], check=True)
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    assert len(files) == 1
    return files[0]


def test_it_is_for_the_lite_runtime(compiled):
    assert compiled.options.optimize_for == descriptor_pb2.FileOptions.LITE_RUNTIME


def test_nothing_is_missing_added_or_different(compiled):
    reference = descriptor_pb2.FileDescriptorProto()
    onnx_ml_pb2.DESCRIPTOR.CopyToProto(reference)
    ours, theirs = flatten(compiled), flatten(reference)
    assert len(theirs) > 150, "the descriptor of the onnx package looks empty"
    assert sorted(theirs.keys() - ours.keys()) == [], "missing in schemas/onnx.proto"
    assert sorted(ours.keys() - theirs.keys()) == [], "not in the onnx package"
    assert {k: (ours[k], theirs[k]) for k in ours if ours[k] != theirs[k]} == {}
