// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/import_tflite.h"

#include <fmt/format.h>

#include <utility>

#include "layout/raise/import_graph.h"
#include "stream/error.h"

namespace lowtide::layout {

ImportedTflite import_tflite(const tfl::Model& model, core::Model& out, const KeptOperators& kept,
                             std::vector<stream::Unsupported>& refused) {
  const tfl::Signature* signature = model.signatures.empty() ? nullptr : &model.signatures[0];
  const uint32_t main = signature ? signature->subgraph : 0;
  for (const tfl::Signature& other : model.signatures)
    if (other.subgraph != main)
      throw stream::Unsupported(
          fmt::format("the model has several signatures ('{}', '{}', ...); an ONNX model has one graph", signature->key,
                      other.key));
  ImportedModel shared{model, out, kept, refused};
  GraphImport(shared).run(main, signature);
  std::vector<std::string> notes;
  if (const size_t count = shared.other_shapes.size(); count > 0)
    notes.push_back(
        fmt::format("the file has another shape than its operators give for {} tensor{}, first {}; the operators' "
                    "shapes are used, as by LiteRT",
                    count, count == 1 ? "" : "s", shared.first_other_shape));
  return {std::move(shared.states), std::move(notes)};
}

}  // namespace lowtide::layout
