// SPDX-License-Identifier: Apache-2.0
// The part of TFLite's C structures that a kernel of the Python interpreter needs, in our own words, as in
// ai-edge-litert 2.3.0 on 64-bit Linux.
//
// The trap: the wheel exports no function that adds a kernel. InterpreterWithCustomOps gives a pointer to a C++ object,
// tflite::MutableOpResolver, whose map of custom operators is reached through its layout. An application in C++ uses
// LiteRtAddCustomOpKernelOption (litert.h), which is an interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

using TfLiteStatus = int;  // 0: well, 1: error

struct TfLiteIntArray {
  int size;
  int data[1];
};

struct TfLiteTensor {
  int type;  // kTfLiteFloat32, ...
  float* floats;
  TfLiteIntArray* dims;
  struct {
    float scale;
    int32_t zero_point;
  } params;
  int allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  void* delegate;
  int buffer_handle;
  bool data_is_stale, is_variable;
  struct {
    int type;
    void* params;
  } quantization;
  void* sparsity;
  const TfLiteIntArray* dims_signature;
};
static_assert(sizeof(TfLiteTensor) == 112);
inline constexpr int kTfLiteFloat32 = 1;

struct TfLiteNode {
  TfLiteIntArray *inputs, *outputs, *intermediates, *temporaries;
  void* user_data;  // what init returned for this node
};

struct TfLiteContext {
  size_t tensors_size;
  TfLiteStatus (*GetExecutionPlan)(TfLiteContext*, TfLiteIntArray**);
  TfLiteTensor* tensors;
  void* impl_;
  TfLiteStatus (*ResizeTensor)(TfLiteContext*, TfLiteTensor*, TfLiteIntArray* new_size);  // frees new_size
  void (*ReportError)(TfLiteContext*, const char* format, ...);
};

struct TfLiteRegistration {
  void* (*init)(TfLiteContext*, const char* options, size_t option_bytes);
  void (*free)(TfLiteContext*, void* user_data);
  TfLiteStatus (*prepare)(TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke)(TfLiteContext*, TfLiteNode*);
  const char* (*profiling_string)(const TfLiteContext*, const TfLiteNode*);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  void* registration_external;
  void* async_kernel;
  uint64_t inplace_operator;
};
static_assert(sizeof(TfLiteRegistration) == 88);
inline constexpr int32_t kTfLiteBuiltinCustom = 32;

struct TfLiteKeyHash {
  template <typename First>
  size_t operator()(const std::pair<First, int>& key) const {
    const size_t first = std::hash<First>()(key.first), second = std::hash<int>()(key.second);
    return combined(combined(0, first), second);
  }
  static size_t combined(size_t a, size_t b) { return a ^ (b + 0x9e3779b97f4a7800ULL + (a << 10) + (a >> 4)); }
};

struct TfLiteMutableOpResolver {
  void* virtual_table;
  std::shared_ptr<void> cache;
  bool may_have_user_defined;
  std::vector<void*> delegate_creators, opaque_delegate_creators;
  std::unordered_map<std::pair<int, int>, TfLiteRegistration, TfLiteKeyHash> builtins;
  std::unordered_map<std::pair<std::string, int>, TfLiteRegistration, TfLiteKeyHash> custom_operators;
};
