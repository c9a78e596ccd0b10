# SPDX-License-Identifier: Apache-2.0
"""--dim, --const, --outputs and --signature: what a model takes and gives, chosen on the command line.

ONNX Runtime judges: it runs the model as it is, with the frozen inputs fed and the chosen values added to its outputs.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.oracle.test_interface import save, value
from tests.support import converter, judge
from tests.support.compare import RangeTolerance
from tests.support.tflite_file import read_tflite

RNG = np.random.default_rng(12)


def real_model(name, models_folder="onnx"):
    path = converter.ROOT.parent / "shared/models" / models_folder / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path


def converted(model, output, *options):
    done = converter.convert(model, output, options)
    assert done.status == "converted", done
    return read_tflite(output)


def refusal(model, tmp_path, *options):
    done = converter.convert(model, tmp_path / "refused.tflite", options)
    assert done.status == "refused" and "\n" not in done.stderr.strip(), done
    return done.stderr


def agree(tflite, arrays, expected, litert):
    verdict = judge.judge_outputs(tflite, arrays, expected, RangeTolerance(1e-4), litert)
    assert verdict.passed, str(verdict)


def two_inputs(tmp_path):
    weight = numpy_helper.from_array(RNG.uniform(-1, 1, (5, 4)).astype(np.float32), "w")
    return save(
        tmp_path / "m.onnx",
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Mul", ["h", "scale"], ["s"]),
            helper.make_node("Relu", ["s"], ["y"]),
            helper.make_node("NonZero", ["x"], ["nz"]),
        ],
        [value("x", ["batch", "seq", 5]), value("scale", ["batch", 1, 4])],
        [value("y", ["batch", "seq", 4]), value("nz", [3, "found"], TensorProto.INT64)],
        [weight],
    )


# ---- --dim -----------------------------------------------------------------------------------------------------------


def test_dimensions_are_fixed_by_name(tmp_path, litert, lowtide):
    model = two_inputs(tmp_path)
    file = converted(model, tmp_path / "m.tflite", "--dim=batch=2", "--dim", "seq=3")
    assert [p.shape for p in file.inputs] == [(2, 3, 5), (2, 1, 4)]
    arrays = {"x": RNG.normal(size=(2, 3, 5)).astype(np.float32), "scale": np.ones((2, 1, 4), np.float32)}
    agree(tmp_path / "m.tflite", arrays, judge.reference(model, arrays), litert)


def test_other_dimensions_stay_dynamic(tmp_path, lowtide):
    file = converted(two_inputs(tmp_path), tmp_path / "m.tflite", "--dim=batch=1")
    assert [p.shape for p in file.inputs] == [(1, -1, 5), (1, 1, 4)]


@pytest.mark.parametrize(
    "option, words",
    [
        ("--dim=bacth=1", "no dimension has the name 'bacth'; did you mean 'batch'? (dimensions of inputs: batch of x and scale, seq of x)"),
        ("--dim=sek=1", "did you mean 'seq'? (dimensions of inputs: seq of x, batch of x and scale)"),
        ("--dim=found=1", "the model computes this dimension, of 'nz', and no input has it (dimensions of inputs: batch"),
        ("--dim=batch=x", "--dim batch: 'x' is not an extent such as 1"),
        ("--dim=batch", "'batch' is not of the form NAME=VALUE"),
        ("--dim=batch=-1", "'-1' is not an extent"),
    ],
)  # fmt: skip
def test_dimensions_that_are_refused(option, words, tmp_path, lowtide):
    assert words in refusal(two_inputs(tmp_path), tmp_path, option)


def test_dim_and_shape_must_agree(tmp_path, lowtide):
    model = two_inputs(tmp_path)
    text = refusal(model, tmp_path, "--dim=batch=2", "--shape=x=1,3,5")
    assert "--dim batch=2 and --shape x contradict each other: axis 0 is 1 there" in text
    converted(model, tmp_path / "m.tflite", "--dim=batch=2", "--shape=x=2,3,5")
    assert "--dim batch is given twice" in refusal(model, tmp_path, "--dim=batch=2", "--dim=batch=2")


def test_a_dimension_of_a_subgraph_is_fixed_too(tmp_path, litert, lowtide):
    body = helper.make_graph([helper.make_node("Add", ["x", "x"], ["t"])], "then", [], [value("t", ["n", 3])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [value("e", ["n", 3])])
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)],
        [value("x", ["n", 3]), value("c", [], TensorProto.BOOL)],
        [value("y", ["n", 3])],
    )
    converted(model, tmp_path / "m.tflite", "--dim=n=2")
    arrays = {"x": RNG.normal(size=(2, 3)).astype(np.float32), "c": np.array(True)}
    agree(tmp_path / "m.tflite", arrays, judge.reference(model, arrays), litert)


# ---- --const ---------------------------------------------------------------------------------------------------------


def test_an_if_over_a_frozen_input_goes(tmp_path, litert, lowtide):
    model = real_model("silero-vad__silero_vad.onnx")
    shapes = ["--shape=input=8,256", "--shape=state=2,8,128"]
    for rate, samples in ((8000, 256), (16000, 512)):
        shapes[0] = f"--shape=input=8,{samples}"
        tflite = tmp_path / f"{rate}.tflite"
        file = converted(model, tflite, *shapes, f"--const=sr={rate}")
        assert [p.name for p in file.inputs] == ["input", "state"]
        assert file.operators["IF"] == 0
        arrays = {
            "input": RNG.uniform(-1, 1, (8, samples)).astype(np.float32),
            "state": RNG.uniform(-1, 1, (2, 8, 128)).astype(np.float32),
        }
        agree(tflite, arrays, judge.reference(model, arrays | {"sr": np.array(rate, np.int64)}), litert)


@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT32", "INT64"])
@pytest.mark.parametrize("form", ["list", "npy"])
def test_lists_and_files_of_every_type(kind, form, tmp_path, litert, lowtide):
    dtype = getattr(TensorProto, kind)
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "f"], ["y"])],
        [value("x", [2, 3]), value("c", [2, "n"], dtype)],
        [value("y", [2, 3])],
    )
    constant = np.array([[1, 2, 3], [4, 5, 100]], helper.tensor_dtype_to_np_dtype(dtype))
    if form == "npy":
        np.save(tmp_path / "c.npy", constant)
        text = str(tmp_path / "c.npy")
    else:
        text = "1,2,3,4,5,100"
    file = converted(model, tmp_path / "m.tflite", f"--const=c={text}")
    assert [p.name for p in file.inputs] == ["x"]
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    agree(tmp_path / "m.tflite", {"x": x}, judge.reference(model, {"x": x, "c": constant}), litert)


def test_a_large_npy_is_streamed(tmp_path, litert, lowtide):
    constant = RNG.normal(size=(256, 1 << 16)).astype(np.float32)  # 64 MiB
    np.save(tmp_path / "c.npy", constant)
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "c"], ["y"])],
        [value("x", [2, 256]), value("c", [256, 1 << 16])],
        [value("y", [2, 1 << 16])],
    )
    done = converter.convert(model, tmp_path / "m.tflite", [f"--const=c={tmp_path / 'c.npy'}"])
    assert done.status == "converted" and done.peak_rss < 33 << 20, done
    x = RNG.normal(size=(2, 256)).astype(np.float32)
    agree(tmp_path / "m.tflite", {"x": x}, judge.reference(model, {"x": x, "c": constant}), litert)
    checked = converter.run("check", model, tmp_path / "m.tflite", f"--const=c={tmp_path / 'c.npy'}")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    "text, words",
    [
        ("scal=1", "the model has no input 'scal'; did you mean 'scale'? (inputs: x, scale)"),
        ("scale=1,2", "2 numbers do not fit the input's shape [?,1,4]"),
        ("scale=1,two", "'1,two' is not a list of numbers of type f32, nor a .npy file"),
        ("w=1", "the model has no input 'w'"),
        ("scale=nothing.npy", "nothing.npy: cannot be opened"),
        ("scale=wrong.npy", "--const scale: the value is f64, and the input is f32"),
        ("scale=shape.npy", "--const scale: the value has shape [2,2,2], and the input [?,1,4]"),
        ("scale=fortran.npy", "its elements are in Fortran order; save numpy.ascontiguousarray(...) of the array"),
        ("scale=big.npy", "its elements are '>f4'; little-endian numbers and bool are read"),
        ("scale=text.npy", "it is not a .npy file"),
        ("scale=cut.npy", "it has 12 bytes of elements; its shape needs 16"),
    ],
)
def test_constants_that_are_refused(text, words, tmp_path, lowtide):
    model = two_inputs(tmp_path)
    np.save(tmp_path / "wrong.npy", np.ones((1, 1, 4)))
    np.save(tmp_path / "shape.npy", np.ones((2, 2, 2), np.float32))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.ones((2, 2, 2), np.float32)))
    np.save(tmp_path / "big.npy", np.ones((1, 1, 4), ">f4"))
    (tmp_path / "text.npy").write_text("1, 2, 3 and some more")
    np.save(tmp_path / "cut.npy", np.ones((1, 1, 4), np.float32))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-4])
    name, _, rest = text.partition("=")
    if rest.endswith(".npy"):
        rest = str(tmp_path / rest)
    assert words in refusal(model, tmp_path, f"--const={name}={rest}")


@pytest.mark.parametrize("form", ["list", "npy"])
def test_names_of_inputs_and_files_with_equal_signs(form, tmp_path, litert, lowtide):
    folder = tmp_path / "k=v"
    folder.mkdir()
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "c"], ["t"]), helper.make_node("Mul", ["t", "c=d"], ["y"])],
        [value("x", [3]), value("c", [1]), value("c=d", [1])],
        [value("y", [3])],
    )
    c, d = np.full(1, 4, np.float32), np.full(1, 5, np.float32)
    np.save(folder / "c.npy", c)
    np.save(folder / "d.npy", d)
    given = ["4", "5"] if form == "list" else [str(folder / "c.npy"), str(folder / "d.npy")]
    file = converted(model, tmp_path / "m.tflite", f"--const=c={given[0]}", f"--const=c=d={given[1]}")
    assert [p.name for p in file.inputs] == ["x"]
    x = RNG.normal(size=3).astype(np.float32)
    agree(tmp_path / "m.tflite", {"x": x}, judge.reference(model, {"x": x, "c": c, "c=d": d}), litert)
    if form == "npy":  # it is known as a file that is read
        output = ["-o", tmp_path / "n.tflite"]
        done = converter.run("convert", model, *output, f"--const=c={given[0]}", f"--report={given[0]}")
        assert done.returncode == 2 and "is a file that an option reads" in done.stderr, done


def test_integers_of_64_bits_without_a_sign(tmp_path, litert, lowtide):
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Concat", ["x", "c"], ["y"], axis=0)],
        [value("x", [1], TensorProto.UINT64), value("c", [2], TensorProto.UINT64)],
        [value("y", [3], TensorProto.UINT64)],
    )
    converted(model, tmp_path / "m.tflite", f"--const=c={2**63},{2**64 - 1}")
    x, c = np.array([1], np.uint64), np.array([2**63, 2**64 - 1], np.uint64)
    agree(tmp_path / "m.tflite", {"x": x}, judge.reference(model, {"x": x, "c": c}), litert)
    for text in ("-1,2", f"{2**64},2"):
        assert "is not a list of numbers of type u64" in refusal(model, tmp_path, f"--const=c={text}")


def test_integers_must_fit(tmp_path, lowtide):
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "c"], ["y"])],
        [value("x", [2], TensorProto.INT8), value("c", [1], TensorProto.INT8)],
        [value("y", [2], TensorProto.INT8)],
    )
    assert "--const c: " in refusal(model, tmp_path, "--const=c=300")


# ---- --outputs, --signature ------------------------------------------------------------------------------------------


def test_outputs_are_chosen_and_the_rest_is_dropped(tmp_path, litert, lowtide):
    model = two_inputs(tmp_path)
    file = converted(model, tmp_path / "m.tflite", "--outputs=h", "--dim=batch=2", "--dim=seq=3")
    assert [p.name for p in file.outputs] == ["h"] and [p.name for p in file.inputs] == ["x"]
    assert set(file.operators) <= {"FULLY_CONNECTED", "RESHAPE"}
    x = RNG.normal(size=(2, 3, 5)).astype(np.float32)
    weight = numpy_helper.to_array(onnx.load(model).graph.initializer[0])
    agree(tmp_path / "m.tflite", {"x": x}, {"h": x @ weight}, litert)


def test_several_outputs_in_the_order_given(tmp_path, litert, lowtide):
    model = two_inputs(tmp_path)
    more = onnx.load(model)
    del more.graph.output[:]
    more.graph.output.extend([value("y", None), value("s", None), value("x", None), value("w", None)])
    arrays = {"x": RNG.normal(size=(2, 3, 5)).astype(np.float32), "scale": np.ones((2, 1, 4), np.float32)}
    expected = judge.reference(more.SerializeToString(), arrays)
    for form in (["--outputs=y,s,x,w"], ["--outputs=y", "--outputs=s,x", "--outputs", "w"]):
        file = converted(model, tmp_path / "m.tflite", *form, "--dim=batch=2", "--dim=seq=3")
        tensors = {index: name for name, index in file.signature_outputs}
        assert [tensors[p.index] for p in file.outputs] == ["y", "s", "x", "w"]
        agree(tmp_path / "m.tflite", arrays, expected, litert)


def test_nodes_that_are_not_needed_may_be_unknown(tmp_path, lowtide):
    model = two_inputs(tmp_path)
    broken = onnx.load(model)
    broken.graph.node.append(helper.make_node("Unknown", ["y"], ["z"], domain="somewhere"))
    broken.graph.output.append(value("z", [1]))
    broken.opset_import.append(helper.make_opsetid("somewhere", 1))
    onnx.save(broken, model)
    assert converter.convert(model, tmp_path / "m.tflite").status == "refused"
    converted(model, tmp_path / "m.tflite", "--outputs=y")


def test_values_that_a_branch_uses_are_kept(tmp_path, litert, lowtide):
    then = helper.make_graph([helper.make_node("Add", ["a", "x"], ["t"])], "then", [], [value("t", [3])])
    other = helper.make_graph([helper.make_node("Identity", ["a"], ["e"])], "else", [], [value("e", [3])])
    model = save(
        tmp_path / "m.onnx",
        [
            helper.make_node("Exp", ["x"], ["a"]),
            helper.make_node("Neg", ["x"], ["b"]),
            helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        ],
        [value("x", [3]), value("c", [], TensorProto.BOOL)],
        [value("b", [3]), value("y", [3])],
    )
    file = converted(model, tmp_path / "m.tflite", "--outputs=y")
    assert file.operators["NEG"] == 0
    for choice in (True, False):
        arrays = {"x": RNG.normal(size=3).astype(np.float32), "c": np.array(choice)}
        agree(tmp_path / "m.tflite", arrays, {"y": judge.reference(model, arrays)["y"]}, litert)


@pytest.mark.parametrize(
    "option, words",
    [
        ("--outputs=qqq", "the graph has no value 'qqq' (outputs of the model: y, nz)"),
        ("--outputs=Y", "the graph has no value 'Y'; did you mean 'y'?"),
        ("--outputs=y,y", "'y' is given twice"),
    ],
)
def test_outputs_that_are_refused(option, words, tmp_path, lowtide):
    assert words in refusal(two_inputs(tmp_path), tmp_path, option)


def test_the_signature_has_a_name(tmp_path, lowtide):
    from ai_edge_litert.interpreter import Interpreter

    model = two_inputs(tmp_path)
    converted(model, tmp_path / "m.tflite", "--signature=encode", "--dim=batch=2", "--dim=seq=3", "--outputs=y")
    assert list(Interpreter(str(tmp_path / "m.tflite")).get_signature_list()) == ["encode"]
    options = ["--dim=batch=2", "--dim=seq=3", "--outputs=y"]
    assert converter.run("check", model, tmp_path / "m.tflite", *options, "--signature=encode").returncode == 0
    wrong = converter.run("check", model, tmp_path / "m.tflite", *options)
    assert "the signatures are" in wrong.stderr and wrong.returncode != 0
