// SPDX-License-Identifier: Apache-2.0
// manifest.json of a divided model: schemas/manifest.schema.json in code.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "layout/divide_model.h"

namespace lowtide::tools {

// A piece as it was written. Names are relative to the folder.
struct PieceFile {
  struct Data {
    std::string name, sha256;
    uint64_t bytes = 0;
  };
  std::string name, sha256;
  uint64_t bytes = 0;
  std::vector<Data> data;  // files of the folder that the piece refers to
};

// `model`: the file's name, and `target`: what its pieces are for; both for people. `inputs` and `outputs` are the
// model's own, as ONNX has them. `in_place`: files that .onnx pieces refer to, named from the folder that holds this
// one.
nlohmann::ordered_json manifest(const std::string& model, const std::string& target,
                                const std::vector<onnx::ValueInfo>& inputs, const std::vector<onnx::ValueInfo>& outputs,
                                const layout::DividedModel& divided, const std::vector<PieceFile>& files,
                                const std::vector<PieceFile::Data>& in_place);

// schemas/division.schema.json in code: the division without files, for programs. `listing`: the same for people.
nlohmann::ordered_json division_json(const std::string& model, const std::string& target,
                                     const layout::DividedModel& divided, const std::string& listing);

// "f32[1,n,?]"
std::string type_text(const onnx::ValueInfo& info);

}  // namespace lowtide::tools
