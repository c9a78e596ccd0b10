// SPDX-License-Identifier: Apache-2.0
// The same operators for Python's InterpreterWithCustomOps. Here init is called for each node and its result belongs to
// that node, and the interpreter raises an exception where a kernel returns an error.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "operators.h"
#include "tflite.h"

namespace {

template <typename Operator>
struct Kernel {
  Operator op;
  bool is_ready = false;

  static void* init(TfLiteContext*, const char* options, size_t bytes) {
    auto kernel = std::make_unique<Kernel>();
    kernel->is_ready = kernel->op.read(reinterpret_cast<const uint8_t*>(options), bytes);
    return kernel.release();
  }
  static void free(TfLiteContext*, void* self) { delete static_cast<Kernel*>(self); }

  static TfLiteStatus prepare(TfLiteContext* context, TfLiteNode* node) {
    if (!static_cast<const Kernel*>(node->user_data)->is_ready || node->inputs->size != 1 || node->outputs->size != 1)
      return 1;
    const TfLiteTensor& in = context->tensors[node->inputs->data[0]];
    TfLiteTensor& out = context->tensors[node->outputs->data[0]];
    if (in.type != kTfLiteFloat32 || out.type != kTfLiteFloat32) return 1;
    const size_t bytes = sizeof(int) * (1 + static_cast<size_t>(in.dims->size));
    auto* shape = static_cast<TfLiteIntArray*>(std::malloc(bytes));
    if (shape == nullptr) return 1;
    std::memcpy(shape, in.dims, bytes);
    return context->ResizeTensor(context, &out, shape);
  }

  static TfLiteStatus invoke(TfLiteContext* context, TfLiteNode* node) {
    const auto& kernel = *static_cast<const Kernel*>(node->user_data);
    const TfLiteTensor& in = context->tensors[node->inputs->data[0]];
    const TfLiteTensor& out = context->tensors[node->outputs->data[0]];
    if (in.bytes != out.bytes) return 1;
    for (size_t i = 0; i < in.bytes / sizeof(float); ++i) out.floats[i] = kernel.op(in.floats[i]);
    return 0;
  }

  static void add(TfLiteMutableOpResolver& resolver, const char* name) {
    TfLiteRegistration kernel{};
    kernel.init = init;
    kernel.free = free;
    kernel.prepare = prepare;
    kernel.invoke = invoke;
    kernel.builtin_code = kTfLiteBuiltinCustom;
    kernel.custom_name = name;
    kernel.version = 1;
    resolver.may_have_user_defined = true;
    resolver.custom_operators[{name, 1}] = kernel;
  }
};

}  // namespace

// Named in InterpreterWithCustomOps(custom_op_registerers=[...]).
extern "C" void example_register(uintptr_t resolver_address) {
  auto& resolver = *reinterpret_cast<TfLiteMutableOpResolver*>(resolver_address);
  Kernel<Atan>::add(resolver, "Atan");
  for (const char* name :
       {"Clamp", "Clamp#1", "Clamp#2", "Clamp#3", "Clamp#4", "Clamp#5", "Clamp#6", "Clamp#7", "Clamp#8"})
    Kernel<Clamp>::add(resolver, name);
}
