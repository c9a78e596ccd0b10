// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/import_tflite.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/raise/import_graph.h"
#include "stream/error.h"
#include "stream/nearest_name.h"
#include "stream/printable.h"

namespace lowtide::layout {
namespace {

// Null: the model has none.
const tfl::Signature* chosen_signature(const tfl::Model& model, const std::string& wanted) {
  std::vector<std::string> keys;
  for (const tfl::Signature& signature : model.signatures) {
    if (!wanted.empty() && signature.key == wanted) return &signature;
    keys.push_back(stream::printable(signature.key));
  }
  if (!wanted.empty())
    throw stream::Error(stream::Code::kUsage,
                        fmt::format("--signature: the model has no signature '{}' (it has: {}){}", wanted,
                                    stream::listed(keys), stream::did_you_mean(wanted, keys)));
  if (model.signatures.empty()) return nullptr;
  const tfl::Signature* first = &model.signatures[0];
  for (const tfl::Signature& other : model.signatures)
    if (other.subgraph != first->subgraph)
      throw stream::Unsupported(
          fmt::format("the model has several signatures ({}); an ONNX model has one graph", stream::listed(keys)),
          fmt::format("choose one with --signature {}", keys[0]));
  return first;
}

ImportedTflite import_with(const tfl::Model& model, core::Model& out, const ImportOptions& options,
                           std::vector<stream::Unsupported>& refused, const tfl::Signature* signature,
                           std::map<core::Dim, int64_t>& bound) {
  ImportedModel shared{model, out, options, refused, bound};
  try {
    GraphImport(shared).run(signature ? signature->subgraph : 0, signature);
  } catch (const OpenDimensionIs& needed) {
    if (!bound.emplace(needed.open, needed.size).second)
      throw stream::Error(stream::Code::kInternal, "an import does not use the size that one before has found");
    throw;
  }
  std::vector<std::string> notes;
  for (const auto& [dim, place] : shared.open_dimensions)
    if (const auto known = bound.find(dim); known != bound.end())
      notes.push_back(fmt::format("the open dimension of {} is {}, the only size that an operator with states takes",
                                  place, known->second));
  if (const size_t count = shared.other_shapes.size(); count > 0)
    notes.push_back(
        fmt::format("the file has another shape than its operators give for {} tensor{}, first {}; the operators' "
                    "shapes are used, as by LiteRT",
                    count, count == 1 ? "" : "s", shared.first_other_shape));
  return {std::move(shared.states), std::move(notes)};
}

}  // namespace

ImportedTflite import_tflite(const tfl::Model& model, core::Model& out, const ImportOptions& options,
                             std::vector<stream::Unsupported>& refused) {
  const tfl::Signature* signature = chosen_signature(model, options.signature);
  // Each import that ends early knows one more dimension than the one before.
  std::map<core::Dim, int64_t> bound;
  while (true) {
    try {
      return import_with(model, out, options, refused, signature, bound);
    } catch (const OpenDimensionIs&) {
      out.graphs.clear();
      refused.clear();
    }
  }
}

}  // namespace lowtide::layout
