// SPDX-License-Identifier: Apache-2.0
// The graphs of a model as JSON for a report ("graphs" of schemas/report.schema.json): tensors, operators that name
// them by index, and ONNX nodes. Written row by row: nothing here holds a graph a second time.
#pragma once

#include "emit/listing.h"
#include "emit/packed_text.h"
#include "layout/core/graph.h"
#include "layout/core/origin_trace.h"

namespace lowtide::emit {

// Of a converted model. Tensors have the indices that they have in the TFLite file.
void add_graph_rows(const core::Model& model, const core::OriginTrace& trace, PackedText& out);
// Of a model that was read.
void add_graph_rows(const Listing& listing, PackedText& out);

// Bytes of constants that each operator reads, as Model Explorer takes it beside a .tflite:
// {graph: {"results": {output tensor: {"value": bytes}}}}.
void add_node_data(const core::Model& model, PackedText& out);

}  // namespace lowtide::emit
