# SPDX-License-Identifier: Apache-2.0
"""Real TFLite models, raised to ONNX, against LiteRT with XNNPACK. Skipped where ../shared/models is absent.

Not judged here: hybrids (LiteRT rounds their data as it runs), and networks whose results LiteRT's own kernels do not
agree about.
"""

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.raised.judge_raised import STEPS, TOLERANCE, inputs_for, run_onnx
from tests.support import converter

MODELS = converter.ROOT.parent / "shared/models/tflite"
JUDGED = [
    "coral__deeplabv3_mnv2_dm05_pascal_quant",
    "coral__mobilenet_v1_0.25_128_quant",
    "coral__mobilenet_v2_1.0_224_quant",
    "coral__split_concat",
    "dtln__model_1.9332b9",
    "dtln__model_2",
    "litert__attn_vec_einsum",
    "litert__group_norm_2_groups_op",
    "litert__l2_norm_composite",
    "onnx2tflite__cifar10_model",
    "openwakeword__alexa_v0.1",
    "portrait__deeplab_aiseg513_dm05_float",
    "portrait__mnv3_seg_float",
    "portrait__portrait_segmentation",
    "stm32__miniresnetv2_2stacks_64x50_int8",
    "tflm__dp_net",
    "tflm__micro_speech_quantized",
    "tiny__model_ToyCar",
    "tiny__pretrainedResnet",
    "tiny__str_ww_ref_model",
    "ultraface__version-RFB-320_without_postprocessing",
    "ultraface__version-slim-320_without_postprocessing",
    "yolox__yolox_nano_only_int8_quantize",
]

# An EXP overflows at inputs of 2, where runtimes and processors give infinity at different numbers.
SCALES = {"tflm__dp_net": 0.1}


@pytest.mark.skipif(not MODELS.is_dir(), reason="../shared/models is absent")
@pytest.mark.parametrize("name", JUDGED)
def test_agrees_with_xnnpack(name, tmp_path):
    (source,) = MODELS.rglob(f"{name}.tflite")
    output = tmp_path / "m.onnx"
    done = converter.run("convert", source, "-o", output)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(output), full_check=True)
    interpreter = Interpreter(str(source))
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    values = [value * SCALES[name] if name in SCALES else value for value in inputs_for(details)]
    values = [value.astype(detail["dtype"]) for value, detail in zip(values, details, strict=True)]
    for detail, value in zip(details, values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    made = run_onnx(output, [detail["name"] for detail in details], values)
    outputs = interpreter.get_output_details()
    assert list(made) == [detail["name"] for detail in outputs]
    for detail in outputs:
        wanted, got = interpreter.get_tensor(detail["index"]), made[detail["name"]]
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        if np.issubdtype(wanted.dtype, np.floating):
            finite = np.isfinite(wanted)
            assert np.array_equal(wanted[~finite], got[~finite], equal_nan=True)
            # One number has no range but its size.
            seen = np.append(wanted[finite].astype(np.float64), 0 if finite.sum() < 2 else wanted[finite][0])
            extent = np.ptp(seen)
            assert np.max(np.abs(got[finite] - wanted[finite]), initial=0) <= TOLERANCE * max(extent, 1e-6)
        else:
            apart = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
            assert np.mean(apart <= STEPS) >= 0.999, apart.max()
