// SPDX-License-Identifier: Apache-2.0
// LSTM, RNN, SVDF and their sequences. The types of their results are set by who adds the op.
#include "layout/core/ops/checks.h"
#include "layout/core/ops/rows.h"
#include "layout/core/stateful_builtin.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

std::vector<TensorType> infer_stateful(const OpView&) {
  throw stream::Error(stream::Code::kInternal, "the types of an operator with states are not inferred");
}

constexpr Builtin with_states(Kind kind) {
  return computing(kind, {infer_stateful, kNotFolded, kFixed, kNothingToRewrite, kNotMerged}, Roles::all(kData),
                   Roles::all(kData));
}

constexpr std::array kStatefulRows = {with_states(Kind::kLstm), with_states(Kind::kUnidirectionalSequenceLstm),
                                      with_states(Kind::kRnn), with_states(Kind::kUnidirectionalSequenceRnn),
                                      with_states(Kind::kSvdf)};

constexpr StatefulForm kStatefulShapes[] = {
    {Kind::kLstm, 24, 18, 2, false}, {Kind::kUnidirectionalSequenceLstm, 24, 18, 2, true},
    {Kind::kRnn, 5, 4, 1, false},    {Kind::kUnidirectionalSequenceRnn, 5, 4, 1, true},
    {Kind::kSvdf, 5, 4, 1, false},
};

}  // namespace

const StatefulForm* stateful_form(std::string_view builtin) {
  for (const StatefulForm& form : kStatefulShapes)
    if (kind_name(form.kind) == builtin) return &form;
  return nullptr;
}

std::vector<StatefulBuiltin::Tensor> lstm_intermediates(const Quantization& hidden) {
  std::vector<StatefulBuiltin::Tensor> out;
  for (const char* gate : {"input", "forget", "cell", "output"})
    out.push_back({std::string("input_to_") + gate + "_intermediate", DType::kFloat32, {0}, {}});
  out.push_back({"effective_hidden_scale_intermediate", DType::kInt8, {0}, hidden});
  return out;
}

std::span<const Builtin> stateful_builtins() { return kStatefulRows; }

}  // namespace lowtide::core
