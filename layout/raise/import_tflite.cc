// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/import_tflite.h"

#include <fmt/format.h>

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

}  // namespace

ImportedTflite import_tflite(const tfl::Model& model, core::Model& out, const ImportOptions& options,
                             std::vector<stream::Unsupported>& refused) {
  const tfl::Signature* signature = chosen_signature(model, options.signature);
  ImportedModel shared{model, out, options, refused};
  GraphImport(shared).run(signature ? signature->subgraph : 0, signature);
  std::vector<std::string> notes;
  if (const size_t count = shared.other_shapes.size(); count > 0)
    notes.push_back(
        fmt::format("the file has another shape than its operators give for {} tensor{}, first {}; the operators' "
                    "shapes are used, as by LiteRT",
                    count, count == 1 ? "" : "s", shared.first_other_shape));
  return {std::move(shared.states), std::move(notes)};
}

}  // namespace lowtide::layout
