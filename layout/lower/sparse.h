// SPDX-License-Identifier: Apache-2.0
// Converts ONNX's sparse tensors to dense ones: TFLite's own sparse tensors are read by few kernels only.
#pragma once

#include "stream/file/budget.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// The dense tensor, with zeros where no element is given. Throws Error(kMalformed) for indices outside the shape or out
// of order, Unsupported for a tensor of more than kSmallElements elements.
stream::RecipeRef dense(const onnx::SparseTensor& sparse, stream::Budget& budget);

}  // namespace lowtide::layout
