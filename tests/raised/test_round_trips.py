# SPDX-License-Identifier: Apache-2.0
"""A sample of the round trips that round_trips.py makes: it prints the counts of all."""

import pytest

from tests.raised import round_trips

# Each 23rd case of the node suite, and the smaller shared models.
EVERY = 23
LARGEST = 1_500_000
CASES = round_trips.items_of("nodes", "", EVERY)[0]
MODELS = [path for path in round_trips.items_of("models", "", 1)[0] if path.stat().st_size <= LARGEST]
TFLITE = [path for path in round_trips.items_of("tflite", "", 1)[0] if path.stat().st_size <= LARGEST]


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
