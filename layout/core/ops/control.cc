// SPDX-License-Identifier: Apache-2.0
// Ops that are not built by inference: IF and WHILE (subgraphs.cc knows what the graphs inside give), and the list of
// tensors that exists while a graph is lowered, and the image op in ONNX's order on the way to ONNX. The graphs of IF
// and WHILE get their axis orders each alone, so the ops are fixed to theirs.
#include "layout/core/ops/checks.h"
#include "layout/core/ops/rows.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

std::vector<TensorType> infer_nothing(const OpView& op) {
  throw stream::Error(stream::Code::kInternal, std::string(kind_name(op.kind)) + " cannot be inferred");
}

constexpr Builtin uninferred(Kind kind) {
  return computing(kind, {infer_nothing, kNotFolded, kFixed, kNothingToRewrite, kNotMerged}, Roles::all(kOther),
                   Roles::all(kOther));
}

constexpr std::array kControlRows = {uninferred(Kind::kIf), uninferred(Kind::kWhile), uninferred(Kind::kTensorList),
                                     uninferred(Kind::kChannelsFirst)};

}  // namespace

std::span<const Builtin> control_builtins() { return kControlRows; }

}  // namespace lowtide::core
