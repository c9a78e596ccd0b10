// SPDX-License-Identifier: Apache-2.0
// Identity, Dropout.
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
void lower_identity(Lowering& lo) { lo.output(0, lo.input(0)); }

void lower_dropout(Lowering& lo) {
  Val x = lo.input(0);
  lo.ignore_attr("ratio");  // used in training only
  lo.ignore_attr("seed");
  if (lo.opset() < 7) {
    lo.ignore_attr("consumed_inputs");
    if (lo.attr_i("is_test", 0) == 0)
      lo.unsupported("training mode is not supported: the result is random",
                     "export the model for inference (is_test=1)");
  }
  if (lo.opset() >= 12 && lo.has_input(2)) {
    auto training = lo.ints(lo.input(2));
    auto ratio = lo.has_input(1) ? lo.numbers(lo.input(1)) : std::optional(std::vector<double>{0.5});
    const bool idle =
        (training && training->size() == 1 && (*training)[0] == 0) || (ratio && ratio->size() == 1 && (*ratio)[0] == 0);
    if (!idle) lo.unsupported("training mode is not supported: the result is random", "export the model for inference");
  }
  lo.output(0, x);
  if (!lo.wants_output(1)) return;
  // Nothing is dropped: the mask is all true. Before opset 12 the standard leaves it open in inference, and ONNX
  // Runtime (providers/cpu/nn/dropout_op.h) fills it with zeros; before opset 10 it has the data's dtype.
  const int kept = lo.opset() < 12 ? 0 : 1;
  lo.output(1, filled_with(lo, lo.shape(x), lo.b.scalar(kept, lo.opset() < 10 ? lo.dtype(x) : DType::kBool)));
}

}  // namespace lowtide::layout
