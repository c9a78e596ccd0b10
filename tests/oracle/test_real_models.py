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
