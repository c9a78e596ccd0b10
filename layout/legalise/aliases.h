// SPDX-License-Identifier: Apache-2.0
// Copies where LiteRT's memory planner would let an op overwrite a value that is still needed.
//
// The planner lets RESHAPE share its input's memory, and lets elementwise ops write over an input that no other op
// reads. It counts the reads of the first tensor of such a chain, not those of the tensors between:
//
//     r --MUL--> a --RESHAPE--> b --ADD--> c        r and b are read once, so ADD writes over r's memory,
//                 \--> read again later             which is a's too
//
// Source: arena_planner.cc (InputTensorCanBeShared, IdentifyInPlaceTensors); seen with ai-edge-litert 2.3.0 without
// XNNPACK.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Puts a SLICE of everything, which shares no memory, before each RESHAPE in question. The last pass that changes ops:
// another one could make such a chain again. Reads are counted, so the order of ops does not matter.
void separate_aliases(core::Graph& graph);

}  // namespace lowtide::layout
