// SPDX-License-Identifier: Apache-2.0
#include "emit/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "stream/shape.h"

namespace lowtide::emit {
namespace {

using Tensors = std::unordered_map<std::string_view, const tfl::Tensor*>;

Tensors by_name(const tfl::Subgraph& graph) {
  Tensors out;
  for (const tfl::Tensor& tensor : graph.tensors) out.emplace(tensor.name, &tensor);
  return out;
}

std::string type_of(const tfl::Tensor& tensor) {
  return fmt::format("{}{}{}", tensor.type, stream::to_string(tensor.shape),
                     tensor.shape_signature.empty() ? "" : stream::to_string(tensor.shape_signature));
}

bool same(const std::unique_ptr<tfl::Quantization>& a, const std::unique_ptr<tfl::Quantization>& b) {
  if (!a || !b) return !a && !b;
  return a->scale == b->scale && a->zero_point == b->zero_point && a->axis == b->axis && a->min == b->min &&
         a->max == b->max && a->other_form == b->other_form;
}

bool same(const tfl::OptionList& a, const tfl::OptionList& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const tfl::Option& one, const tfl::Option& other) {
    return one.name == other.name && one.value == other.value;
  });
}

// The names of an operator's tensors: indices differ between files.
std::vector<std::string_view> names(const tfl::Subgraph& graph, const std::vector<int32_t>& tensors) {
  std::vector<std::string_view> out;
  for (int32_t index : tensors)
    out.push_back(index < 0 ? std::string_view() : graph.tensors[static_cast<size_t>(index)].name);
  return out;
}

// "name FLOAT32[1,3,8,8]" of each input or output.
std::vector<std::string> signature(const tfl::Subgraph& graph, const std::vector<int32_t>& tensors) {
  std::vector<std::string> out;
  for (int32_t index : tensors) {
    const tfl::Tensor& tensor = graph.tensors[static_cast<size_t>(index)];
    out.push_back(fmt::format("{} {}", tensor.name, type_of(tensor)));
  }
  return out;
}

std::vector<std::string> keys(const tfl::Model& model) {
  std::vector<std::string> out;
  for (const tfl::Signature& signature : model.signatures) out.push_back(signature.key);
  return out;
}

class Differences {
 public:
  explicit Differences(size_t most) : most_(most) {}
  template <typename... Parts>
  void add(fmt::format_string<Parts...> text, Parts&&... parts) {
    if (++count_ <= most_) lines_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }
  std::vector<std::string> lines() && {
    if (count_ > most_) lines_.push_back(fmt::format("and {} more", count_ - most_));
    return std::move(lines_);
  }

 private:
  size_t most_, count_ = 0;
  std::vector<std::string> lines_;
};

void compare_signatures(const std::vector<std::string>& expected, const std::vector<std::string>& found,
                        const char* what, size_t subgraph, Differences& out) {
  if (expected != found) out.add("the {} of subgraph {} are {}, expected {}", what, subgraph, found, expected);
}

void compare_tensors(const tfl::Subgraph& expected, const tfl::Subgraph& found, Differences& out) {
  const Tensors theirs = by_name(found), ours = by_name(expected);
  for (const tfl::Tensor& tensor : expected.tensors) {
    auto it = theirs.find(tensor.name);
    if (it == theirs.end()) {
      out.add("tensor '{}' is missing", tensor.name);
    } else if (type_of(tensor) != type_of(*it->second)) {
      out.add("tensor '{}' is {}, expected {}", tensor.name, type_of(*it->second), type_of(tensor));
    } else if (!same(tensor.quantization, it->second->quantization)) {
      out.add("tensor '{}' has different quantization parameters", tensor.name);
    } else if (tensor.has_data != it->second->has_data) {
      out.add("tensor '{}' is {}a constant", tensor.name, tensor.has_data ? "not " : "");
    }
  }
  for (const tfl::Tensor& tensor : found.tensors)
    if (!ours.contains(tensor.name)) out.add("tensor '{}' is not expected", tensor.name);
}

void compare_operators(const tfl::Subgraph& expected, const tfl::Subgraph& found, Differences& out) {
  if (expected.operators.size() != found.operators.size())
    out.add("there are {} operators, expected {}", found.operators.size(), expected.operators.size());
  const size_t both = std::min(expected.operators.size(), found.operators.size());
  for (size_t i = 0; i < both; ++i) {
    const tfl::Operator &ours = expected.operators[i], &theirs = found.operators[i];
    if (ours.name != theirs.name) {
      out.add("operator {} is {}, expected {}", i, theirs.name, ours.name);
    } else if (ours.version != theirs.version) {
      out.add("operator {} ({}) has version {}, expected {}", i, ours.name, theirs.version, ours.version);
    } else if (names(expected, ours.inputs) != names(found, theirs.inputs) ||
               names(expected, ours.outputs) != names(found, theirs.outputs)) {
      out.add("operator {} ({}) has the inputs {}, expected {}", i, ours.name, names(found, theirs.inputs),
              names(expected, ours.inputs));
    } else if (ours.options_table != theirs.options_table || !same(ours.options, theirs.options) ||
               ours.custom_bytes != theirs.custom_bytes) {
      out.add("operator {} ({}) has different options", i, ours.name);
    }
  }
}

}  // namespace

std::vector<std::string> graph_differences(const tfl::Model& expected, const tfl::Model& found, size_t most) {
  Differences out(most);
  if (expected.subgraphs.size() != found.subgraphs.size())
    out.add("there are {} subgraphs, expected {}", found.subgraphs.size(), expected.subgraphs.size());
  const size_t both = std::min(expected.subgraphs.size(), found.subgraphs.size());
  for (size_t i = 0; i < both; ++i) {
    const tfl::Subgraph &ours = expected.subgraphs[i], &theirs = found.subgraphs[i];
    compare_signatures(signature(ours, ours.inputs), signature(theirs, theirs.inputs), "inputs", i, out);
    compare_signatures(signature(ours, ours.outputs), signature(theirs, theirs.outputs), "outputs", i, out);
    compare_operators(ours, theirs, out);
    compare_tensors(ours, theirs, out);
  }
  if (keys(expected) != keys(found)) out.add("the signatures are {}, expected {}", keys(found), keys(expected));
  return std::move(out).lines();
}

std::vector<ConstantPair> constants_of_both(const tfl::Model& expected, const tfl::Model& found) {
  std::vector<ConstantPair> out;
  // Tensors that share a buffer share its place in the file.
  std::set<std::pair<const stream::Source*, uint64_t>> seen;
  const size_t both = std::min(expected.subgraphs.size(), found.subgraphs.size());
  for (size_t i = 0; i < both; ++i) {
    const Tensors ours = by_name(expected.subgraphs[i]);
    for (const tfl::Tensor& tensor : found.subgraphs[i].tensors) {
      auto it = ours.find(tensor.name);
      if (!tensor.data || it == ours.end() || !it->second->data) continue;
      if (tensor.dtype != it->second->dtype || tensor.shape != it->second->shape) continue;
      const auto* stored = stream::recipe::plain_stored(*tensor.data);
      if (stored && !seen.emplace(stored->source.get(), stored->file_runs[0].offset).second) continue;
      out.push_back({tensor.name, it->second->data, tensor.data});
    }
  }
  return out;
}

}  // namespace lowtide::emit
