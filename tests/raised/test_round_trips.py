# SPDX-License-Identifier: Apache-2.0
"""A sample of the round trips that round_trips.py makes: it prints the counts of all."""

import pytest

from tests.raised import round_trips

# Each 23rd case of the node suite, and the smaller shared models.
EVERY = 23
LARGEST = 1_500_000
CASES = round_trips.items_of("nodes", "", EVERY)[0]
MODELS = [path for path in round_trips.items_of("models", "", 1)[0] if path.stat().st_size <= LARGEST]
# More operators come back, see docs/tflite-to-onnx.md.
MORE = {
    "dtln__model_quant_1",  # LSTM cells in parts
    "litert__attn_vec_einsum",  # one RESHAPE more, of 2 operators
    "litert__qwen_fc_blockwise_quantized",  # blocks of weights become operators
    "onnx2tflite__cifar10_model",  # one RESHAPE more, of 8
    "portrait__mnv3_seg_quant",  # LiteRT refuses it
    "tflm__micro_speech_lstm",  # an unrolled Scan
    "tflm__micro_speech_quantized",  # one RESHAPE more, of 4
}
TFLITE = [
    path
    for path in round_trips.items_of("tflite", "", 1)[0]
    if path.stat().st_size <= LARGEST and path.stem not in MORE
]


@pytest.mark.parametrize("entry", CASES)
def test_onnx_node(entry):
    _, status, reason = round_trips.node_trip(entry)
    assert status != "wrong", reason


@pytest.mark.skipif(not MODELS, reason="../shared/models is absent")
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_onnx_model(path):
    _, status, reason = round_trips.model_trip(path)
    assert status != "wrong", reason


@pytest.mark.skipif(not TFLITE, reason="../shared/models is absent")
@pytest.mark.parametrize("path", TFLITE, ids=lambda path: path.stem)
def test_tflite_model(path):
    _, status, reason = round_trips.tflite_trip(path)
    assert status != "wrong", reason
