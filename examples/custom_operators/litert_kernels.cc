// SPDX-License-Identifier: Apache-2.0
#include "litert_kernels.h"

#include <atomic>
#include <deque>
#include <limits>
#include <string>

#include "operators.h"

namespace {

std::atomic<int> failures{0};

// A buffer while it is locked.
class Locked {
 public:
  Locked(LiteRtTensorBuffer buffer, int mode) : buffer_(buffer) {
    if (LiteRtLockTensorBuffer(buffer, &address_, mode) != 0) address_ = nullptr;
    if (LiteRtGetTensorBufferPackedSize(buffer, &bytes_) != 0) bytes_ = 0;
  }
  ~Locked() {
    if (address_ != nullptr) LiteRtUnlockTensorBuffer(buffer_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  float* floats() const { return static_cast<float*>(address_); }
  size_t count() const { return address_ == nullptr ? 0 : bytes_ / sizeof(float); }

 private:
  LiteRtTensorBuffer buffer_;
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

bool is_float(LiteRtTensorBuffer buffer) {
  LiteRtRankedTensorType type;
  return LiteRtGetTensorBufferTensorType(buffer, &type) == 0 && type.element_type == kLiteRtFloat32;
}

// An elementwise operator of one input under one name. LiteRT gives all nodes of a name the same `user_data`, which is
// right because Lowtide gives nodes with other attributes another name.
template <typename Operator>
struct Kernel {
  Operator op;
  bool is_ready = false;

  static LiteRtStatus init(void* self, const void* options, size_t bytes) {
    auto& kernel = *static_cast<Kernel*>(self);
    kernel.is_ready = kernel.op.read(static_cast<const uint8_t*>(options), bytes);
    return kernel.is_ready ? 0 : 1;
  }

  static LiteRtStatus layouts(void*, size_t inputs, const LiteRtLayout* in, size_t outputs, LiteRtLayout* out) {
    for (size_t i = 0; i < outputs; ++i) out[i] = in[0];
    return inputs == 1 && outputs == 1 ? 0 : 1;
  }

  static LiteRtStatus run(void* self, size_t inputs, const LiteRtTensorBuffer* in, size_t outputs,
                          LiteRtTensorBuffer* out) {
    const auto& kernel = *static_cast<const Kernel*>(self);
    if (kernel.is_ready && inputs == 1 && outputs == 1 && is_float(in[0]) && is_float(out[0])) {
      const Locked from(in[0], kLiteRtRead), to(out[0], kLiteRtWrite);
      if (from.floats() != nullptr && to.floats() != nullptr && from.count() == to.count()) {
        for (size_t i = 0; i < from.count(); ++i) to.floats()[i] = kernel.op(from.floats()[i]);
        return 0;
      }
    }
    return fail(outputs, out);
  }

  static LiteRtStatus fail(size_t outputs, LiteRtTensorBuffer* out) {
    ++failures;
    for (size_t i = 0; i < outputs; ++i) {
      const Locked to(out[i], kLiteRtWrite);
      for (size_t j = 0; j < to.count(); ++j) to.floats()[j] = std::numeric_limits<float>::quiet_NaN();
    }
    return 1;
  }

  static LiteRtStatus destroy(void*) { return 0; }

  LiteRtStatus add(LiteRtOptions options, const std::string& name) {
    static constexpr LiteRtCustomOpKernel kFunctions = {init, layouts, run, destroy};
    return LiteRtAddCustomOpKernelOption(options, name.c_str(), 1, &kFunctions, this);
  }
};

template <typename Operator>
LiteRtStatus add(LiteRtOptions options, const std::string& name) {
  static std::deque<Kernel<Operator>> kernels;  // their addresses stay
  return kernels.emplace_back().add(options, name);
}

}  // namespace

LiteRtStatus example_add_kernels(LiteRtOptions options) {
  LiteRtStatus status = add<Atan>(options, "Atan");
  if (status == 0) status = add<Clamp>(options, "Clamp");
  for (int i = 1; i <= 8 && status == 0; ++i) status = add<Clamp>(options, "Clamp#" + std::to_string(i));
  return status;
}

int example_take_failures() { return failures.exchange(0); }
