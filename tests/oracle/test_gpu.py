# SPDX-License-Identifier: Apache-2.0
"""Models that LiteRT's GPU delegate must take whole, and compute as ONNX Runtime does (docs/gpu.md).

The delegate runs on SwiftShader, a GPU in software; without it the tests are skipped, with a line that says what is missing.
"""

import onnx
import pytest

from tests.oracle.all_cases import CASES
from tests.oracle.cases_plain import FOR_GPU, NARROWED
from tests.oracle.real_models import FOLDER, expectations
from tests.support import converter, gpu, judge
from tests.support.compare import RangeTolerance, compare
from tests.support.inputs import load_structure, random_inputs

WHOLE = (
    "plain/ids_of_two_axes",
    "plain/constant_place",
    "plain/constant_run",
    "plain/all_places",
    "plain/all_places_of_four",
    "plain/all_places_multiplied",
    "plain/heads_repeated",
    "plain/windows",
    "plain/qkv_of_one",
    "plain/first_state",
    "plain/one_hot_last",
    "plain/hard_sigmoid",
    "plain/one_row",
    "plain/biases_of_places",
    "plain/turned_round",
    "plain/reflected_signal",
    "plain/below_the_highest",
    "fuse/flatten_batch",
    "fuse/flatten_global_pool",
    "fuse/flatten_rows",
)
# Not six_axes: the delegate takes no tensor of more than four axes as input or output.
NOT_WHOLE = ("plain/six_axes",)
WHOLE_FOR_GPU = tuple(case.name for case in FOR_GPU if case.name not in NOT_WHOLE)
REAL = (
    "ort__mnist",
    "ipne__face_detection_yunet_120x160",
    "ultraface__version-slim-320_without_postprocessing",
    "ultraface__version-RFB-320_simplified",
    "dtln__model_1",
    "openwakeword__melspectrogram",
    "openwakeword__embedding_model",
    "ort__nuphar_tiny_model_with_loop",
    "silero-vad__silero_vad_half",
    "silero-vad__silero_vad_openvino_16k",
)

pytestmark = pytest.mark.skipif(bool(gpu.absent()), reason=str(gpu.absent()))


def judge_on_gpu(model, folder, arrays, options=(), f32=True, tolerance=RangeTolerance()):
    tflite = folder / "model.tflite"
    conversion = converter.convert(model, tflite, options)
    assert conversion.status == "converted", conversion.reason
    answer = gpu.delegate(tflite, arrays, f32)
    assert answer.whole, f"{answer}: {'; '.join(answer.reasons)}"
    for name, expected in judge.reference(model, arrays).items():
        difference = compare(expected, answer.outputs[name], tolerance)
        assert not difference.fault, f"{name} {difference.fault}"


def case_on_gpu(name, tmp_path, options):
    case = next(case for case in CASES if case.name == name)
    model = case.model()
    onnx.save(model, tmp_path / "model.onnx")
    arrays = case.feeds or random_inputs(model, case.shapes, case.ranges)
    judge_on_gpu(tmp_path / "model.onnx", tmp_path, arrays, options)


@pytest.mark.parametrize("name", WHOLE)
def test_case_is_taken_whole(name, tmp_path):
    case_on_gpu(name, tmp_path, ())


@pytest.mark.parametrize(
    "name",
    [
        *WHOLE_FOR_GPU,
        *(case.name for case in NARROWED),
        "plain/places_looked_up",
        "plain/rows_put_into_a_constant",
        "plain/types_of_tokens",
        "plain/one_row_alone",
        "plain/biases_repeated",
    ],
)
def test_case_is_taken_whole_for_gpu(name, tmp_path):
    case_on_gpu(name, tmp_path, ("--for=gpu",))


@pytest.mark.parametrize("name", REAL)
def test_real_model_is_taken_whole(name, tmp_path):
    model = FOLDER / f"{name}.onnx"
    if not model.is_file():
        pytest.skip(f"{model} is not there: the collection of models is not on this machine")
    row = next(row for row in expectations() if row.model == model.name)
    shapes = [f"--shape={of}={','.join(map(str, dims))}" for of, dims in row.shapes.items()]
    judge_on_gpu(model, tmp_path, random_inputs(load_structure(model), row.shapes, row.ranges), shapes)


# Models whose numbers are near 1, so that half precision holds them; the last two are of the collection.
HALF = ("plain/windows", "ort__mnist", "dtln__model_1")


def half_model(name, folder):
    """(model, arrays) of a case or of a model of the collection."""
    if "/" not in name:
        model = FOLDER / f"{name}.onnx"
        if not model.is_file():
            pytest.skip(f"{model} is not there: the collection of models is not on this machine")
        return model, random_inputs(load_structure(model), {}, {})
    case = next(case for case in CASES if case.name == name)
    onnx.save(case.model(), folder / "model.onnx")
    return folder / "model.onnx", random_inputs(case.model(), case.shapes, case.ranges)


@pytest.mark.parametrize("weights", ["stored", "f16"])
@pytest.mark.parametrize("name", HALF)
def test_half_precision(name, weights, tmp_path, record_property):
    """Near the result where the delegate may compute in 16 bits, and where it must; as near as 32 bits where f32 is enforced."""
    model, arrays = half_model(name, tmp_path)
    tflite = tmp_path / "half.tflite"
    options = ("--for=gpu", f"--weights={weights}")
    assert converter.convert(model, tflite, options).status == "converted"
    expected = judge.reference(model, arrays)
    rounded = 2e-3 if weights == "f16" else 0  # by the weights
    runs = {
        "f32": (gpu.delegate(tflite, arrays).outputs, 1e-4 + rounded),
        "any": (gpu.delegate(tflite, arrays, f32=False).outputs, 1e-2),
        "f16": (gpu.half_on_processor(tflite, arrays), 1e-2),
    }
    for precision, (outputs, allowed) in runs.items():
        assert isinstance(outputs, dict), (precision, outputs)
        for output, value in expected.items():
            difference = compare(value, outputs[output], RangeTolerance(allowed))
            print(f"{name}, weights {weights}, {precision}: {difference.relative:.1e} of the range")
            record_property(f"{precision} {output}", f"{difference.relative:.1e}")
            assert not difference.fault, f"{precision}: {output} {difference.fault}"


def test_model_in_half_precision(tmp_path):
    """A model whose tensors are f16: its weights stay so, and the delegate takes it whole in both precisions."""
    case = next(case for case in CASES if case.name == "plain/model_in_half")
    model = case.model()
    onnx.save(model, tmp_path / "model.onnx")
    arrays = random_inputs(model, case.shapes, case.ranges)
    for f32, allowed in ((True, 2e-3), (False, 1e-2)):
        judge_on_gpu(tmp_path / "model.onnx", tmp_path, arrays, f32=f32, tolerance=RangeTolerance(allowed))
