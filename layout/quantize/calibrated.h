// SPDX-License-Identifier: Apache-2.0
// What a ranges file says of a model's tensors, and how it is asked to be used: the input of place_grids.h.
//
// Names are ONNX's. A file that fits no tensor, or another model, is refused before anything is converted.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "layout/quantize/grid.h"
#include "layout/quantize/ranges.h"
#include "layout/quantize/unmasked.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// Of one tensor.
struct CalibratedTensor {
  Interval seen;           // from the least to the largest value
  Interval interval;       // that its integers represent: chosen, with 0 inside
  double mean_square = 0;  // 0: not known
  // Along the tensor's channels; empty: not known.
  std::vector<float> channel_means, channel_lows, channel_highs;
  // How far the means are off in the network of integers whose layers before are corrected; empty: not known.
  std::vector<float> channel_shifts;
  bool is_finite = true;   // all values in all samples
  Unmasked unmasked;       // its numbers but for masks
  bool is_scaled = false;  // by equalize(): its channels are no longer those of ONNX's value
};

struct Calibrated {
  std::string file;   // for messages
  std::string graph;  // digest of the model that the ranges are of
  std::map<std::string, CalibratedTensor> tensors;
  std::unordered_set<std::string> unseen;  // no finite value in any sample

  DType activations = DType::kInt8;     // or i16
  bool per_tensor = false;              // one scale for all channels of a weight
  bool equalize = true;                 // channels of neighbouring convolutions (equalize.h)
  bool correct_biases = true;           // by the means of the data's channels (bias_correction.h)
  std::vector<std::string> keep_float;  // patterns as of fnmatch(3) for names of nodes and of their outputs
  bool only_integers = false;           // outputs must be integers, or all operators
  int threads = 1;

  // Computed values of the ONNX model's main graph of which the file says nothing; set by check_calibrated().
  std::unordered_set<std::string> missing;
};

// The grid that covers an interval with 0 inside, of i8 or, without zero point, i16. And what a grid covers.
TensorGrid grid_over(const Interval& interval, DType dtype);
Interval interval_of(const TensorGrid& grid);

// Throws Error(kMalformed) if the ranges are those of another model, or name a tensor that it has not. Call it before
// inputs and outputs are edited.
void check_calibrated(Calibrated& calibrated, const onnx::Graph& graph);

}  // namespace lowtide::layout
