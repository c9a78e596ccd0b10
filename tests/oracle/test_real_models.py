# SPDX-License-Identifier: Apache-2.0
"""Every real model of the collection: converted as a user does it, and judged against ONNX Runtime.

The models are not in the repository: they are in ../shared/models/onnx beside it, or in $LOWTIDE_MODELS. Where
they are absent, that is said in the reason of what is skipped. real_models.tsv holds what is expected of each.
"""

import pytest

from tests.oracle.real_models import FOLDER, expectations
from tests.support import judge

PRESENT = FOLDER.is_dir()


@pytest.mark.skipif(not PRESENT, reason=f"no real models in {FOLDER}: none is judged")
def test_every_model_has_an_expectation():
    assert sorted(p.name for p in FOLDER.glob("*.onnx")) == sorted(e.model for e in expectations())


@pytest.mark.parametrize("expected", expectations() if PRESENT else [], ids=lambda e: e.model)
def test_real_model(expected, litert, lowtide):
    verdict = judge.judge(FOLDER / expected.model, shapes=expected.shapes, ranges=expected.ranges, litert=litert)
    print(judge.report(verdict))
    if expected.status == "pass":
        assert verdict.passed, str(verdict)
    else:
        assert verdict.status == "refused", f"expected to be refused ({expected.names}), but {verdict}"
        assert expected.names in verdict.reason


# Models whose dimensions have long formulas: converted without --shape, judged at each of these sizes.
DYNAMIC = {
    "ort__bert_toy_optimized.onnx": [(2, 7), (1, 5), (3, 8)],
}


@pytest.mark.parametrize("size", sorted({size for sizes in DYNAMIC.values() for size in sizes}))
@pytest.mark.parametrize("model", sorted(DYNAMIC) if PRESENT else [])
def test_with_dynamic_dimensions(model, size, litert, lowtide):
    (expected,) = [e for e in expectations() if e.model == model]
    shapes = dict.fromkeys(expected.shapes, size)
    verdict = judge.judge(FOLDER / model, shapes=shapes, fix=False, ranges=expected.ranges, litert=litert)
    assert verdict.passed, str(verdict)
