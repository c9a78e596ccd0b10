// SPDX-License-Identifier: Apache-2.0
// ONNX's sparse tensors made dense: TFLite's own sparsity is for pruned weights of few kernels only.
#pragma once

#include "stream/file/budget.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// The dense tensor, zeros where nothing is given. Throws Error(kMalformed) for indices outside the shape or out of
// order, Unsupported for a tensor of more than kSmallElements elements.
stream::RecipeRef dense(const onnx::SparseTensor& sparse, stream::Budget& budget);

}  // namespace lowtide::layout
