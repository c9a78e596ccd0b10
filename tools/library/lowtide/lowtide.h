// SPDX-License-Identifier: Apache-2.0
// The library's one public header: conversion of ONNX models to TFLite, and listings of both, for programs in C++17.
//
//     find_package(Lowtide REQUIRED)
//     target_link_libraries(app PRIVATE Lowtide::lowtide)
//
// Memory does not depend on the bytes of the weights: they stay on disk until they are written. It includes no other
// header of Lowtide, and fields are only added. The library neither prints nor ends the process; it sets no limits, and
// no signal handlers that stay: a process that is killed leaves a temporary file in the folder of the output
// (docs/safety.md). While a call reads mapped files, a handler of SIGBUS turns faults in them into Error(kIo); other
// faults go to the handler that was there before, which the last call that ends restores.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lowtide {

// "0.1.0"
std::string_view version() noexcept;

// The kinds of docs/errors.md; the values are the exit statuses of the program.
enum class ErrorKind {
  kUsage = 2,        // an option does not fit the model
  kNotFound = 3,     // a file that does not exist, or may not be opened or written
  kIo = 4,           // reading or writing failed, or an input changed while it was read
  kNoSpace = 5,      // the output does not fit on the disk
  kMalformed = 6,    // the file is damaged or of another format
  kUnsafePath = 7,   // external data outside of the model's folder, links, devices
  kUnsupported = 8,  // a valid model that TFLite cannot express exactly; see Error::nodes()
  kBudget = 9,       // ConvertOptions::budget or max_zstd_ratio is too small
  kInterrupted = 10,
  kInternal = 11,  // an error in the library
  kDifferent = 12,
};

// A node that cannot be converted.
struct RefusedNode {
  std::string node, op;      // its name (or its first output), and its operator: "Conv", "com.microsoft.Gelu"
  std::string place;         // such as "input 1 'w'"; may be empty
  std::string reason, hint;  // the hint may be empty
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, std::vector<RefusedNode> nodes);
  // Only copied, also where it could be moved: an object that was moved from would have no message.
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ErrorKind kind() const noexcept;
  // One line: "net.onnx: node 'conv_17' (Conv): group 3 does not divide 64 channels"
  const char* what() const noexcept override;
  // With kUnsupported: all nodes that were refused.
  const std::vector<RefusedNode>& nodes() const noexcept;

 private:
  struct Details;
  std::shared_ptr<const Details> details_;  // copying does not throw
};

struct Progress {
  std::string_view phase;   // "writing", ...; valid during the call
  std::uint64_t done = 0;   // bytes
  std::uint64_t total = 0;  // bytes; 0: not known
};

enum class Weights {
  kStored,  // in f16 where the ONNX model has f16, else in f32
  kFloat,   // all in f32
  kF16,     // in f16, int8 or int4 where LiteRT's kernels read them (docs/weights.md)
  kInt8,
  kInt4,
  kInPlace,  // unchanged weights are not copied: the output refers to the ONNX model's files
};

struct ConvertOptions {
  std::map<std::string, std::vector<std::int64_t>> shapes;  // input name -> shape, for inputs with dynamic dimensions
  std::map<std::string, std::string> layouts;               // input or output name -> "nhwc", or "nchw" as in ONNX
  Weights weights = Weights::kStored;
  std::vector<std::string> weights_include, weights_exclude;  // patterns of names, for kF16, kInt8 and kInt4
  bool external_buffers = false;  // weights behind the flatbuffer, as always in files over 2 GiB
  // "allow" or "allow=Op,domain:Op": nodes that become custom operators, for which the application brings kernels. The
  // map is a JSON file (docs/custom-operators.md). Both may be empty.
  std::string custom_ops;
  std::filesystem::path custom_ops_map;
  // Bytes for tiles and windows, beside the graph (some KiB for each node). 0: 8 MiB, or more where a model needs more.
  std::uint64_t budget = 0;
  int threads = 2;                      // 1 to 256; the output is the same for any number
  int zstd_level = 3;                   // 1 to 19, for an output whose name ends in .zst
  std::uint64_t max_zstd_ratio = 1000;  // refuses .zst input that decompresses to more than this; 0: no limit
  // Called up to ten times a second, from several threads but never at once. If it throws, the conversion ends, leaves
  // nothing behind, and the exception is thrown from convert().
  std::function<void(const Progress&)> progress;
};

struct Conversion {
  std::uint64_t input_bytes = 0, output_bytes = 0;           // with external data
  std::uint64_t nodes = 0;                                   // ONNX nodes of the main graph
  std::uint64_t operators = 0, transposes = 0, tensors = 0;  // of the TFLite model
  std::vector<std::string> notes;  // operators that are newer than the opset that the model declares
};

// Converts `model` (.onnx or .onnx.zst) to `output` (.tflite or .tflite.zst). The output gets its name when it is
// complete; after an exception an older file of that name is unchanged. Throws Error, std::bad_alloc, and what
// `progress` throws.
Conversion convert(const std::filesystem::path& model, const std::filesystem::path& output,
                   const ConvertOptions& options = {});

// Operators, tensors and sizes of a model of either format, as the JSON of `lowtide inspect --json`. Throws Error.
std::string inspect(const std::filesystem::path& model);

}  // namespace lowtide
