// SPDX-License-Identifier: Apache-2.0
// The rows of the table by family. Each is written in <family>.cc beside this file.
#pragma once

#include <span>
#include <string>

#include "layout/raise/row.h"

namespace lowtide::layout {

std::span<const RaiseRow> raised_arithmetic();   // arithmetic.cc: elementwise, comparisons, conversions
std::span<const RaiseRow> raised_activations();  // activations.cc
std::span<const RaiseRow> raised_images();       // images.cc: convolutions, pools, resizes, blocks
std::span<const RaiseRow> raised_products();     // products.cc: FULLY_CONNECTED, BATCH_MATMUL
std::span<const RaiseRow> raised_moves();        // moves.cc: RESHAPE, TRANSPOSE, pads, gathers
std::span<const RaiseRow> raised_slices();       // slices.cc: SLICE, STRIDED_SLICE
std::span<const RaiseRow> raised_reductions();   // reductions.cc: sums, ARG_MAX, SOFTMAX, TOPK_V2
std::span<const RaiseRow> raised_scatters();     // scatters.cc: UNSORTED_SEGMENT_*, SCATTER_ND, UNIQUE
std::span<const RaiseRow> raised_bits();         // bits.cc: BITWISE_XOR, shifts
std::span<const RaiseRow> raised_control();      // control_flow.cc: IF, WHILE
std::span<const RaiseRow> raised_custom_ops();   // custom_ops.cc: what is CUSTOM on this way

// Integers as a DequantizeLinear takes them.
struct StoredNumbers {
  std::string name;
  core::DType dtype;
  core::Quantization quantization;
};

// Weights with a scale beside data of this type, as LiteRT's kernel reads them: beside floats u8 are the bits of i8,
// and no kernel looks at zero points.
StoredNumbers stored_weights(Raising& r, size_t weights, core::DType data);
// The same as numbers; of weights without a scale, these.
std::string raised_weights(Raising& r, size_t weights, core::DType data);

// The bias of a product as numbers: integers have the scale of the data times that of the weights, whatever the file
// says, because the kernels do not look at it. An empty name when it is absent.
std::string raised_bias(Raising& r, size_t data, size_t weights, size_t bias);

// Refuses scales of the weights along another axis, because the kernels take them by output channel, whatever the file
// says.
void need_scales_by_output(Raising& r, size_t weights, int64_t axis);

struct StatefulOperator;
// Writes an op of stateful.cc as a call of a function (stateful_function.cc). False where it has none.
bool raise_stateful_call(Raising& r, const StatefulOperator& op);

// The functions of RaisedOperator.
void raise_stateful(Raising& r);           // stateful.cc: LSTM, RNN, SVDF and their sequences
void raise_blocks_of_weights(Raising& r);  // custom_ops.cc
void raise_detection(Raising& r);          // detection.cc: TFLite_Detection_PostProcess
void raise_pool_with_places(Raising& r);   // unpooling.cc: MaxPoolingWithArgmax2D
void raise_unpooling(Raising& r);          // unpooling.cc: MaxUnpooling2D
void raise_suppression(Raising& r);        // suppression.cc: NON_MAX_SUPPRESSION_V4, _V5
void raise_sparse_to_dense(Raising& r);    // scatters.cc
void raise_fourier_transform(Raising& r);  // fourier.cc: RFFT2D
void raise_foreign(Raising& r);            // foreign_operator.cc: any other operator, in a domain of its own

}  // namespace lowtide::layout
