// SPDX-License-Identifier: Apache-2.0
#include "stream/file/known_formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "stream/error.h"
#include "stream/printable.h"

namespace lowtide::stream {
namespace {

// Of several that fit, the first one counts.
struct KnownFormat {
  size_t offset = 0;
  std::string_view magic = {};
  std::string_view what = {}, hint = {};  // the hint may be empty
};

constexpr std::string_view kDecompress = "decompress it first (lowtide itself reads .zst)";
constexpr std::string_view kExport = "export the model with torch.onnx.export";

using namespace std::string_view_literals;
constexpr KnownFormat kFormats[] = {
    {4, "ORTM", "a model in ONNX Runtime's own format (.ort)", "give the .onnx file that it was made from"},
    {0, "version https://git-lfs", "a Git LFS pointer", "fetch the model with 'git lfs pull'"},
    {0, "\x28\xb5\x2f\xfd"sv, "zstd data", "its name must end in .zst"},
    {0, "\x1f\x8b"sv, "a gzip file", kDecompress},
    {0, "BZh", "a bzip2 file", kDecompress},
    {0, "\xfd\x37zXZ\0"sv, "an xz file", kDecompress},
    {0, "\x04\x22\x4d\x18"sv, "an lz4 file", kDecompress},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "extract the model first"},
    {0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv, "a PyTorch file", kExport},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file", "convert a Keras model with tf2onnx"},
    {0, "GGUF", "a GGUF model", ""},
    {0, "\x93NUMPY"sv, "a NumPy array", ""},
    {0, "<!DOCTYPE html", "an HTML page", "was the page downloaded instead of the file?"},
    {0, "<!doctype html", "an HTML page", "was the page downloaded instead of the file?"},
    {0, "<html", "an HTML page", "was the page downloaded instead of the file?"},
    {0, "<?xml", "an XML file", ""},
    {0, "\177ELF", "a program or a library (ELF)", ""},
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of a zip archive, the name of its first file, which is at byte 30, says what made it.
bool is_pytorch_archive(std::string_view first) {
  const std::string_view names = first.substr(std::min<size_t>(first.size(), 30), 100);
  return first.starts_with("PK\x03\x04") &&
         (names.find("data.pkl") != names.npos || names.find(".format_version") != names.npos);
}

// Eight bytes of length, then JSON.
bool is_safetensors(std::string_view first) { return first.size() > 10 && first.substr(6, 4) == "\0\0{\""sv; }

constexpr std::string_view kSpaces = " \t\r\n";

// Models have control characters among their first bytes.
bool is_text(std::string_view first) {
  const bool has_control = std::any_of(first.begin(), first.end(), [](unsigned char letter) {
    return (letter < ' ' && kSpaces.find(static_cast<char>(letter)) == kSpaces.npos) || letter == 0x7f;
  });
  if (has_control) return false;
  const size_t least = first.size() - (first.size() == kFirstBytes ? 3 : 0);  // the last letter may be cut
  while (first.size() > least && !is_utf8(first)) first.remove_suffix(1);
  return is_utf8(first);
}

std::string_view kind_of_text(std::string_view first) {
  const size_t at = first.find_first_not_of(kSpaces);
  return at != first.npos && (first[at] == '{' || first[at] == '[') ? "JSON" : "text";
}

KnownFormat format_of(std::string_view first) {
  for (const KnownFormat& format : kFormats)
    if (first.size() >= format.offset && first.substr(format.offset).starts_with(format.magic)) return format;
  if (is_pytorch_archive(first)) return {0, "", "a PyTorch file", kExport};
  if (first.starts_with("PK\x03\x04")) return {0, "", "a zip archive", "extract the model first"};
  if (is_safetensors(first)) return {0, "", "a safetensors file", "it has weights, but no graph of operators"};
  return {};
}

}  // namespace

std::vector<std::byte> first_bytes(const Source& source) {
  std::vector<std::byte> out(std::min(source.size(), kFirstBytes));
  source.read_at(0, out);
  return out;
}

bool begins_like_tflite(std::span<const std::byte> first) {
  return first.size() >= 8 && text_of(first).substr(4, 4) == "TFL3";
}

bool begins_like_onnx(std::span<const std::byte> first) {
  constexpr std::string_view kTags = "\x12\x1a\x22\x28\x32\x3a\x42\x72";
  const std::string_view text = text_of(first);
  return text.size() > 2 && text[0] == '\x08' && text[1] > 0 && kTags.find(text[2]) != kTags.npos;
}

void refuse_other_formats(std::span<const std::byte> first, std::string_view wanted, const std::string& name) {
  const bool is_tflite = begins_like_tflite(first), is_onnx = begins_like_onnx(first);
  if (wanted == kTfliteModel ? is_tflite : is_onnx) return;
  const KnownFormat found = is_tflite ? KnownFormat{.what = kTfliteModel}
                            : is_onnx ? KnownFormat{.what = kOnnxModel}
                                      : format_of(text_of(first));
  if (found.what.empty()) {
    const std::string_view text = text_of(first);
    if (text.empty()) throw Error(Code::kMalformed, "the file is empty", {.file = name});
    if (!is_text(text)) return;
    throw Error(Code::kMalformed, fmt::format("not an ONNX or TFLite model (it looks like {})", kind_of_text(text)),
                {.file = name});
  }
  throw Error(Code::kMalformed,
              fmt::format("the file is {}, not {}{}{}", found.what, wanted, found.hint.empty() ? "" : "; ", found.hint),
              {.file = name});
}

}  // namespace lowtide::stream
