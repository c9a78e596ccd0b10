// SPDX-License-Identifier: Apache-2.0
#include "emit/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
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

// "key: subgraph 0, x = tensor, y = tensor" of one list of a signature.
std::string listed_ports(const tfl::Model& model, const tfl::Signature& signature,
                         const std::vector<std::pair<std::string, uint32_t>>& list) {
  std::string out = fmt::format("subgraph {}", signature.subgraph);
  for (const auto& [name, tensor] : list)
    out += fmt::format(", {} = {}", name, model.subgraphs[signature.subgraph].tensors[tensor].name);
  return out;
}

std::vector<std::string> keys(const tfl::Model& model) {
  std::vector<std::string> out;
  for (const tfl::Signature& signature : model.signatures) out.push_back(signature.key);
  return out;
}

// Options that are too large to be kept (null) are compared as bytes of the file only.
bool same_custom_options(const tfl::Operator& a, const tfl::Operator& b) {
  return a.custom_bytes == b.custom_bytes &&
         (!a.custom_options || !b.custom_options || *a.custom_options == *b.custom_options);
}

// Metadata that say how the file stores its buffers, and which runtimes read this form.
bool is_of_form(const std::string& metadata) {
  return metadata == "min_runtime_version" || metadata == "buffer_location";
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

void compare_interfaces(const std::vector<std::string>& expected, const std::vector<std::string>& found,
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
    } else if (tensor.data && !it->second->data) {
      out.add("tensor '{}' is a constant whose data cannot be read", tensor.name);
    } else if (tensor.is_variable != it->second->is_variable) {
      out.add("tensor '{}' is {}a variable", tensor.name, tensor.is_variable ? "not " : "");
    }
  }
  for (const tfl::Tensor& tensor : found.tensors) {
    if (!ours.contains(tensor.name)) {
      out.add("tensor '{}' is not expected", tensor.name);
    } else if (theirs.at(tensor.name) != &tensor && ours.size() == expected.tensors.size()) {
      out.add("tensor '{}' is there more than once", tensor.name);
    }
  }
}

// "has the inputs [...], expected [...]" when they are other tensors.
bool compare_lists(const tfl::Subgraph& expected, const std::vector<int32_t>& ours, const tfl::Subgraph& found,
                   const std::vector<int32_t>& theirs, const std::string& op, const char* what, Differences& out) {
  const auto here = names(expected, ours), there = names(found, theirs);
  if (here != there) out.add("{} has the {} {}, expected {}", op, what, there, here);
  return here == there;
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
    } else {
      const std::string op = fmt::format("operator {} ({})", i, ours.name);
      if (!compare_lists(expected, ours.inputs, found, theirs.inputs, op, "inputs", out) ||
          !compare_lists(expected, ours.outputs, found, theirs.outputs, op, "outputs", out) ||
          !compare_lists(expected, ours.intermediates, found, theirs.intermediates, op, "intermediates", out))
        continue;
      if (ours.options_table != theirs.options_table || !same(ours.options, theirs.options) ||
          !same_custom_options(ours, theirs))
        out.add("{} has different options", op);
    }
  }
}

void compare_signature_lists(const tfl::Model& expected, const tfl::Model& found, Differences& out) {
  if (keys(expected) != keys(found)) {
    out.add("the signatures are {}, expected {}", keys(found), keys(expected));
    return;
  }
  for (size_t i = 0; i < expected.signatures.size(); ++i) {
    const tfl::Signature &ours = expected.signatures[i], &theirs = found.signatures[i];
    auto compare = [&](const char* what, const auto& here, const auto& there) {
      const std::string wanted = listed_ports(expected, ours, here), is = listed_ports(found, theirs, there);
      if (wanted != is) out.add("the {} of signature '{}' are of {}; expected {}", what, ours.key, is, wanted);
    };
    compare("inputs", ours.inputs, theirs.inputs);
    compare("outputs", ours.outputs, theirs.outputs);
  }
}

void compare_metadata(const tfl::Model& expected, const tfl::Model& found, Differences& out) {
  for (const auto& [name, value] : expected.metadata) {
    const auto it = found.metadata.find(name);
    if (is_of_form(name)) continue;
    if (it == found.metadata.end())
      out.add("the metadata '{}' are missing", name);
    else if (it->second != value)
      out.add("the metadata '{}' are {}, expected {}", name, it->second, value);
  }
  for (const auto& [name, value] : found.metadata)
    if (!is_of_form(name) && !expected.metadata.contains(name)) out.add("the metadata '{}' are not expected", name);
  if (expected.description != found.description && !other_version(expected, found))
    out.add("the description is '{}', expected '{}'", found.description, expected.description);
}

// Where the bytes of a constant are: equal places are equal bytes.
using Place = std::pair<const void*, uint64_t>;
Place place(const stream::RecipeRef& constant) {
  if (const auto* stored = stream::recipe::plain_stored(*constant))
    return {stored->source.get(), stored->file_runs[0].offset};
  return {constant.get(), 0};
}

}  // namespace

bool other_version(const tfl::Model& expected, const tfl::Model& found) {
  constexpr std::string_view kProgram = "Lowtide ";
  return expected.description != found.description && expected.description.starts_with(kProgram) &&
         found.description.starts_with(kProgram);
}

std::vector<std::string> graph_differences(const tfl::Model& expected, const tfl::Model& found, size_t most) {
  Differences out(most);
  if (expected.subgraphs.size() != found.subgraphs.size())
    out.add("there are {} subgraphs, expected {}", found.subgraphs.size(), expected.subgraphs.size());
  const size_t both = std::min(expected.subgraphs.size(), found.subgraphs.size());
  for (size_t i = 0; i < both; ++i) {
    const tfl::Subgraph &ours = expected.subgraphs[i], &theirs = found.subgraphs[i];
    if (ours.name != theirs.name) out.add("subgraph {} is '{}', expected '{}'", i, theirs.name, ours.name);
    compare_interfaces(signature(ours, ours.inputs), signature(theirs, theirs.inputs), "inputs", i, out);
    compare_interfaces(signature(ours, ours.outputs), signature(theirs, theirs.outputs), "outputs", i, out);
    compare_operators(ours, theirs, out);
    compare_tensors(ours, theirs, out);
  }
  compare_signature_lists(expected, found, out);
  compare_metadata(expected, found, out);
  return std::move(out).lines();
}

std::vector<ConstantPair> constants_of_both(const tfl::Model& expected, const tfl::Model& found) {
  std::vector<ConstantPair> out;
  // Tensors that share a buffer share its place in the file. Both places count: a tensor of `found` may share the
  // buffer of one that it should not.
  std::set<std::tuple<Place, Place, uint64_t>> seen;
  const size_t both = std::min(expected.subgraphs.size(), found.subgraphs.size());
  for (size_t i = 0; i < both; ++i) {
    const Tensors ours = by_name(expected.subgraphs[i]);
    for (const tfl::Tensor& tensor : found.subgraphs[i].tensors) {
      auto it = ours.find(tensor.name);
      if (!tensor.data || it == ours.end() || !it->second->data) continue;
      if (tensor.dtype != it->second->dtype || tensor.shape != it->second->shape) continue;
      if (!seen.emplace(place(it->second->data), place(tensor.data), tensor.data->bytes()).second) continue;
      out.push_back({tensor.name, it->second->data, tensor.data});
    }
  }
  return out;
}

}  // namespace lowtide::emit
