// SPDX-License-Identifier: Apache-2.0
// The part of LiteRT's C API that the example uses, in our own words: no header of LiteRT is needed, only its library.
// As in ai-edge-litert 2.3.0; another version may have other signatures.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using LiteRtStatus = int;  // 0: well
using LiteRtEnvironment = struct LiteRtEnvironmentT*;
using LiteRtModel = struct LiteRtModelT*;
using LiteRtOptions = struct LiteRtOptionsT*;
using LiteRtCompiledModel = struct LiteRtCompiledModelT*;
using LiteRtTensorBuffer = struct LiteRtTensorBufferT*;

struct LiteRtLayout {
  uint32_t rank_and_strides;  // bits 0 to 6: the rank; bit 7: whether there are strides
  int32_t dimensions[8];
  uint32_t strides[8];

  uint32_t rank() const { return rank_and_strides & 0x7f; }
};
struct LiteRtRankedTensorType {
  int32_t element_type;  // kLiteRtFloat32, ...
  LiteRtLayout layout;
};
static_assert(sizeof(LiteRtLayout) == 68 && sizeof(LiteRtRankedTensorType) == 72);

inline constexpr int32_t kLiteRtFloat32 = 1;
inline constexpr int kLiteRtHostMemory = 1;              // type of a buffer
inline constexpr int kLiteRtRead = 0, kLiteRtWrite = 1;  // modes of a lock
inline constexpr uint32_t kLiteRtCpu = 1;                // accelerator

// All statuses are ignored by LiteRT 2.3.0. Init is called for every node before the first run.
struct LiteRtCustomOpKernel {
  LiteRtStatus (*Init)(void* user_data, const void* options, size_t option_bytes);
  LiteRtStatus (*GetOutputLayouts)(void* user_data, size_t inputs, const LiteRtLayout* input_layouts, size_t outputs,
                                   LiteRtLayout* output_layouts);
  LiteRtStatus (*Run)(void* user_data, size_t inputs, const LiteRtTensorBuffer* input_buffers, size_t outputs,
                      LiteRtTensorBuffer* output_buffers);
  LiteRtStatus (*Destroy)(void* user_data);
};

LiteRtStatus LiteRtCreateEnvironment(int options, const void* list, LiteRtEnvironment* made);
void LiteRtDestroyEnvironment(LiteRtEnvironment environment);
LiteRtStatus LiteRtCreateModelFromFile(LiteRtEnvironment environment, const char* path, LiteRtModel* made);
void LiteRtDestroyModel(LiteRtModel model);
LiteRtStatus LiteRtCreateOptions(LiteRtOptions* made);
void LiteRtDestroyOptions(LiteRtOptions options);
LiteRtStatus LiteRtSetOptionsHardwareAccelerators(LiteRtOptions options, uint32_t accelerators);
LiteRtStatus LiteRtAddCustomOpKernelOption(LiteRtOptions options, const char* name, int version,
                                           const LiteRtCustomOpKernel* kernel, void* user_data);
LiteRtStatus LiteRtCreateCompiledModel(LiteRtEnvironment environment, LiteRtModel model, LiteRtOptions options,
                                       LiteRtCompiledModel* made);
void LiteRtDestroyCompiledModel(LiteRtCompiledModel model);
LiteRtStatus LiteRtGetCompiledModelInputTensorLayout(LiteRtCompiledModel model, size_t signature, size_t input,
                                                     LiteRtLayout* layout);
LiteRtStatus LiteRtRunCompiledModel(LiteRtCompiledModel model, size_t signature, size_t inputs,
                                    LiteRtTensorBuffer* input_buffers, size_t outputs,
                                    LiteRtTensorBuffer* output_buffers);
LiteRtStatus LiteRtCreateManagedTensorBuffer(LiteRtEnvironment environment, int buffer_type,
                                             const LiteRtRankedTensorType* type, size_t bytes,
                                             LiteRtTensorBuffer* made);
void LiteRtDestroyTensorBuffer(LiteRtTensorBuffer buffer);
LiteRtStatus LiteRtGetTensorBufferTensorType(LiteRtTensorBuffer buffer, LiteRtRankedTensorType* type);
LiteRtStatus LiteRtGetTensorBufferPackedSize(LiteRtTensorBuffer buffer, size_t* bytes);
LiteRtStatus LiteRtLockTensorBuffer(LiteRtTensorBuffer buffer, void** address, int mode);
LiteRtStatus LiteRtUnlockTensorBuffer(LiteRtTensorBuffer buffer);

}  // extern "C"
