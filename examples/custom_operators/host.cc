// SPDX-License-Identifier: Apache-2.0
// Runs a model of one float32 input and one float32 output of the same shape, with the example's kernels.
//
//     host MODEL.tflite INPUT.bin OUTPUT.bin [RUNS]       prints the time of a run
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "litert_kernels.h"

namespace {

constexpr int kModel = 1, kInput = 2, kOutput = 3, kRuns = 4;

void check(LiteRtStatus status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "host: %s: status %d\n", what, status);
  std::exit(1);
}

size_t element_count(const LiteRtLayout& layout) {
  size_t count = 1;
  for (uint32_t i = 0; i < layout.rank(); ++i) count *= static_cast<size_t>(layout.dimensions[i]);
  return count;
}

LiteRtTensorBuffer make_buffer(LiteRtEnvironment environment, const LiteRtLayout& layout) {
  const LiteRtRankedTensorType type{kLiteRtFloat32, layout};
  const size_t bytes = element_count(layout) * sizeof(float);
  LiteRtTensorBuffer buffer = nullptr;
  check(LiteRtCreateManagedTensorBuffer(environment, kLiteRtHostMemory, &type, bytes, &buffer), "making a buffer");
  return buffer;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc <= kOutput) {
    std::fprintf(stderr, "usage: host MODEL.tflite INPUT.bin OUTPUT.bin [RUNS]\n");
    return 2;
  }
  const int runs = argc > kRuns ? std::atoi(argv[kRuns]) : 1;
  std::ifstream file(argv[kInput], std::ios::binary);
  const std::vector<char> input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

  LiteRtEnvironment environment = nullptr;
  LiteRtModel model = nullptr;
  LiteRtOptions options = nullptr;
  LiteRtCompiledModel compiled = nullptr;
  check(LiteRtCreateEnvironment(0, nullptr, &environment), "making the environment");
  check(LiteRtCreateModelFromFile(environment, argv[kModel], &model), "reading the model");
  check(LiteRtCreateOptions(&options), "making options");
  check(LiteRtSetOptionsHardwareAccelerators(options, kLiteRtCpu), "choosing the processor");
  check(example_add_kernels(options), "adding the kernels");
  check(LiteRtCreateCompiledModel(environment, model, options, &compiled), "loading the model");

  LiteRtLayout layout{};
  check(LiteRtGetCompiledModelInputTensorLayout(compiled, 0, 0, &layout), "asking for the input's shape");
  if (input.size() != element_count(layout) * sizeof(float)) {
    std::fprintf(stderr, "host: the input has %zu bytes, the model takes %zu\n", input.size(),
                 element_count(layout) * sizeof(float));
    return 1;
  }
  LiteRtTensorBuffer in = make_buffer(environment, layout), out = make_buffer(environment, layout);
  void* address = nullptr;
  check(LiteRtLockTensorBuffer(in, &address, kLiteRtWrite), "locking the input");
  std::memcpy(address, input.data(), input.size());
  check(LiteRtUnlockTensorBuffer(in), "unlocking the input");

  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) check(LiteRtRunCompiledModel(compiled, 0, 1, &in, 1, &out), "running the model");
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begun;
  const int failures = example_take_failures();
  std::printf("%d runs, %.1f us each\n", runs, runs > 0 ? spent.count() / runs : 0);

  check(LiteRtLockTensorBuffer(out, &address, kLiteRtRead), "locking the output");
  std::ofstream(argv[kOutput], std::ios::binary)
      .write(static_cast<const char*>(address), static_cast<std::streamsize>(input.size()));
  check(LiteRtUnlockTensorBuffer(out), "unlocking the output");

  LiteRtDestroyTensorBuffer(out);
  LiteRtDestroyTensorBuffer(in);
  LiteRtDestroyCompiledModel(compiled);
  LiteRtDestroyOptions(options);
  LiteRtDestroyModel(model);
  LiteRtDestroyEnvironment(environment);
  if (failures > 0) std::fprintf(stderr, "host: a kernel failed %d times; its outputs are NaN\n", failures);
  return failures > 0 ? 3 : 0;
}
