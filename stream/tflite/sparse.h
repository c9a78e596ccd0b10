// SPDX-License-Identifier: Apache-2.0
// Sparse tensors of a .tflite file as dense ones, without holding either form: the bytes of the dense tensor are made
// where they are read.
//
// TFLite stores the places of a tensor level by level. A level is an axis of the shape, or the places in a block along
// an axis; it lists all places (dense), or those that hold something (compressed: for each place of the levels before,
// `segments` says which part of `indices` is its own). The numbers stand in the order of the levels.
// Source of the semantics: LiteRT's tflite/kernels/internal/utils/sparsity_format_converter.cc.
#pragma once

#include "stream/tflite/model.h"

namespace lowtide::stream {

// The dense tensor. Segments and indices are read once, piece by piece, to check them; zeros are where nothing is
// stored, zero bytes whatever the zero point, as in LiteRT. Throws Error(kMalformed) where the lists do not fit the
// shape, and Unsupported for what cannot be read at any place without reading what is before it: several compressed
// levels, compressed blocks, and element types that LiteRT's kernel does not have.
RecipeRef dense_recipe(const tfl::Tensor& tensor);

}  // namespace lowtide::stream
