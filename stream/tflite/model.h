// SPDX-License-Identifier: Apache-2.0
// A TFLite model as plain data, independent of operators: every index is checked, constants are recipes, options are
// lists of named values. Views of text are of names that the schema has: they live as long as the program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stream/recipe/recipe.h"

namespace lowtide::tfl {

using stream::DType;
using stream::RecipeRef;
using stream::Shape;

struct Quantization {
  std::vector<float> min, max, scale;
  std::vector<int64_t> zero_point;
  int axis = 0;
  bool other_form = false;  // block-wise, multi-axis or custom, which the fields above do not describe
  // Block-wise: tensors of the same subgraph with a scale, and a zero point, for each block of the last axis. Not
  // checked; -1: none.
  int32_t block_scales = -1, block_zero_points = -1, block_size = 0;
};

// How a sparse tensor is stored, as in the file (sparse.h). Only the places of lists are checked, not what is in them.
struct Sparsity {
  struct Numbers {
    uint64_t offset = 0;
    uint32_t count = 0;
    int width = 4;  // bytes: 4 (signed), 2 or 1
  };
  struct Level {
    bool is_compressed = false;
    int64_t size = 0;           // of a dense level
    Numbers segments, indices;  // of a compressed one
  };
  std::vector<int32_t> order, block_map;
  std::vector<Level> levels;
  std::shared_ptr<stream::Source> source;
  uint64_t values = 0;  // where the data begin; data_bytes says how many
};

struct Tensor {
  std::string name;
  std::string_view type;  // the schema's name, e.g. "FLOAT32"; set for types without a DType too
  DType dtype = DType::kUndefined;
  Shape shape;              // as in the file; 1 where the signature is -1
  Shape shape_signature;    // empty, or of the same rank with -1 where a dimension is unknown
  RecipeRef data;           // null: computed, an input, a string or sparse tensor, or in a file that cannot be read
  uint64_t data_bytes = 0;  // of its buffer
  bool has_data = false;    // it has a buffer (data may still be null)
  bool is_variable = false, is_sparse = false;
  std::unique_ptr<Quantization> quantization;
  std::shared_ptr<const Sparsity> sparsity;  // of a sparse tensor with data; null: in a form that is not known
};

// A field of an options table: name and value as in the schema. Fields that are absent in the file have the schema's
// default; nested tables are omitted.
struct Option {
  std::string_view name;
  std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>> value;
  std::string_view enumerator;  // the value's name when it is an enum and has one
  bool operator==(const Option&) const = default;
};

// Operators with equal options share them: in a file few differ.
class OptionList {
 public:
  OptionList() = default;
  explicit OptionList(std::shared_ptr<const std::vector<Option>> list) : list_(std::move(list)) {}
  const Option* begin() const { return list_ ? list_->data() : nullptr; }
  const Option* end() const { return list_ ? list_->data() + list_->size() : nullptr; }

 private:
  std::shared_ptr<const std::vector<Option>> list_;
};

struct Operator {
  int32_t code = 0;  // BuiltinOperator
  std::string name;  // "CONV_2D", or the name of a custom operator
  int32_t version = 1;
  std::vector<int32_t> inputs, outputs, intermediates;  // tensors; -1: absent (inputs only)
  std::string_view options_table;                       // "Conv2DOptions"; empty when there is none
  OptionList options;
  uint64_t custom_bytes = 0;                                   // of a custom operator's options
  std::shared_ptr<const std::vector<uint8_t>> custom_options;  // null: none, or too large to be kept
};

struct Subgraph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<int32_t> inputs, outputs;
  std::vector<Operator> operators;
};

struct Signature {
  std::string key;
  uint32_t subgraph = 0;
  std::vector<std::pair<std::string, uint32_t>> inputs, outputs;  // name, tensor
};

// A file with constants beside the model (external buffers).
struct ExternalFile {
  std::string name;     // relative to the model's folder
  uint64_t bytes = 0;   // of the constants in it
  std::string problem;  // why they cannot be read; empty: no problem found
};

struct Model {
  std::string path;
  uint32_t version = 0;
  std::string description;
  std::vector<Subgraph> subgraphs;
  std::vector<Signature> signatures;
  std::map<std::string, std::string> metadata;  // short ones (up to 64 bytes), cut at the first zero; else "N bytes"
  uint64_t file_bytes = 0;
  bool external_buffers = false;  // some payloads are after the flatbuffer
  std::vector<ExternalFile> external_files;
  std::vector<std::string> notes;  // what the user should know of the file
};

}  // namespace lowtide::tfl
