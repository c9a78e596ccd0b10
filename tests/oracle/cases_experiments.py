# SPDX-License-Identifier: Apache-2.0
"""Experimental operators of opsets 1 to 9, which ONNX has removed and ONNX Runtime still runs."""

from tests.support.case import Case

X = "float[2,3,7,9] x"


def experiment(name, body, shape, inputs=X, **more):
    CASES.append(
        Case(f"experiments/{name}", inputs, f"y = {body}", opset=8, outputs=f"float[{shape}] y", foreign=True, **more)
    )


CASES = []
SAME = "2,3,7,9"
OPEN = {"inputs": "float[2,3,H,9] x", "shapes": {"x": (2, 3, 7, 9)}}
experiment("affine", "Affine<alpha=2.5, beta=-0.7>(x)", SAME)
experiment("affine_defaults", "Affine(x)", SAME)
experiment("scale", "Scale<scale=-3.1>(x)", SAME)
experiment("scaled_tanh", "ScaledTanh<alpha=1.7, beta=0.6>(x)", SAME)
experiment("parametric_softplus", "ParametricSoftplus<alpha=1.7, beta=-30.0>(x)", SAME)
experiment("image_scaler", "ImageScaler<scale=0.3, bias=[0.1, -0.2, 0.3]>(x)", SAME)
experiment("image_scaler_open", "ImageScaler<bias=[0.1, -0.2, 0.3]>(x)", "2,3,H,9", **OPEN)
experiment("crop", "Crop<border=[1, 2, 3, 1]>(x)", "2,3,4,5")
experiment("crop_to_a_size", "Crop<border=[1, 2, 5, 5], scale=[3, 4]>(x)", "2,3,3,4")
experiment("crop_too_much", "Crop<border=[5, 2, 5, 1]>(x)", "2,3,4,1")
experiment("crop_to_too_large_a_size", "Crop<border=[1, 2, 0, 0], scale=[6, 4]>(x)", "2,3,6,4")
experiment("scaled_tanh_without_constants", "ScaledTanh<alpha=1.7>(x)", SAME)
experiment("image_scaler_of_other_channels", "ImageScaler<bias=[0.1, 0.2]>(x)", SAME)
CASES.append(Case("experiments/affine_later", X, "y = Affine(x)", opset=10, outputs=f"float[{SAME}] y", foreign=True))
