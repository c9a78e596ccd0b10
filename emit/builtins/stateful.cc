// SPDX-License-Identifier: Apache-2.0
// LSTM, RNN, SVDF and their sequences. Their variable tensors and intermediates are added by the writer of operators
// (emit/header.cc).
#include "emit/builtins/row.h"
#include "layout/core/stateful_builtin.h"

namespace lowtide::emit {
namespace {

const core::StatefulBuiltin& stateful(const Op& op) { return *options_of<core::StatefulOptions>(op).described; }

tflite::ActivationFunctionType activation_of(const core::StatefulBuiltin& from) {
  return static_cast<tflite::ActivationFunctionType>(from.activation);
}

OptionsTable lstm_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const core::StatefulBuiltin& o = stateful(op);
  return table_of(tflite::BuiltinOptions::LSTMOptions,
                  tflite::CreateLSTMOptions(fbb, activation_of(o), o.cell_clip, o.proj_clip));
}

OptionsTable lstm_sequence_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const core::StatefulBuiltin& o = stateful(op);
  return table_of(
      tflite::BuiltinOptions::UnidirectionalSequenceLSTMOptions,
      tflite::CreateUnidirectionalSequenceLSTMOptions(fbb, activation_of(o), o.cell_clip, o.proj_clip, o.time_major));
}

OptionsTable rnn_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  return table_of(tflite::BuiltinOptions::RNNOptions, tflite::CreateRNNOptions(fbb, activation_of(stateful(op))));
}

OptionsTable rnn_sequence_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const core::StatefulBuiltin& o = stateful(op);
  return table_of(tflite::BuiltinOptions::SequenceRNNOptions,
                  tflite::CreateSequenceRNNOptions(fbb, o.time_major, activation_of(o)));
}

OptionsTable svdf_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const core::StatefulBuiltin& o = stateful(op);
  return table_of(tflite::BuiltinOptions::SVDFOptions, tflite::CreateSVDFOptions(fbb, o.rank, activation_of(o)));
}

// Floats, and for UNIDIRECTIONAL_SEQUENCE_LSTM and LSTM integers of version 1; hybrids are not written.
constexpr BuiltinForm kStatefulForms[] = {
    {Kind::kLstm, lstm_options, kOneVersion, {"1.7.0"}},
    {Kind::kUnidirectionalSequenceLstm, lstm_sequence_options, kOneVersion, {"1.13.1"}},
    {Kind::kRnn, rnn_options, kOneVersion, {"1.5.0"}},
    {Kind::kUnidirectionalSequenceRnn, rnn_sequence_options, kOneVersion, {"1.14.0"}},
    {Kind::kSvdf, svdf_options, kOneVersion, {"1.5.0"}},
};

}  // namespace

std::span<const BuiltinForm> stateful_forms() { return kStatefulForms; }

}  // namespace lowtide::emit
