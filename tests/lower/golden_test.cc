// SPDX-License-Identifier: Apache-2.0
// Golden cases: an ONNX model as text, and the TFLite model that it becomes or the errors that it gets. The files
// tests/lower/*.txt hold many cases each:
//
//     case NAME
//     <the model, see onnx_text.h>
//     tflite | error
//     <the listing, see short_listing.h, or a line for each error>
//
// UPDATE_GOLDEN=1 writes what is found into the files instead of comparing; git shows what changed. Numbers are not
// judged here: the cases come from tests/oracle, where LiteRT and ONNX Runtime judge them (write_cases.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "emit/make_plan.h"
#include "emit/tflite_writer.h"
#include "layout/convert.h"
#include "stream/file/file.h"
#include "stream/onnx/reader.h"
#include "stream/tflite/reader.h"
#include "tests/lower/onnx_text.h"
#include "tests/lower/short_listing.h"
#include "tests/stream/scratch.h"

namespace lowtide::golden {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = LOWTIDE_SOURCE_DIR;
const fs::path kFolder = kRoot / "tests/lower";
constexpr uint64_t kBudget = uint64_t{64} << 20;

struct Case {
  std::string name, onnx, expected;  // expected begins with the line "tflite" or "error"
};

std::vector<Case> read_cases(const fs::path& path) {
  std::ifstream in(path);
  std::vector<Case> cases;
  bool is_expected = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("case ")) {
      cases.push_back({.name = line.substr(5), .onnx = {}, .expected = {}});
      is_expected = false;
    } else if (!cases.empty() && !line.empty()) {
      is_expected = is_expected || line == "tflite" || line == "error";
      (is_expected ? cases.back().expected : cases.back().onnx) += line + "\n";
    }
  }
  return cases;
}

void write_cases(const fs::path& path, const std::vector<Case>& cases) {
  std::ofstream out(path);
  for (const Case& each : cases)
    out << (&each == &cases.front() ? "" : "\n") << "case " << each.name << "\n" << each.onnx << each.expected;
}

// Passes rely on it: none tidies what it is given.
void expect_tidy(std::string_view pass, const core::Model& model) {
  for (const auto& graph : model.graphs) EXPECT_TRUE(graph->is_tidy()) << "after the pass " << pass;
}

std::string found_for(const Case& given, const stream::ScratchFolder& folder) {
  const std::string bytes = parse_onnx(given.onnx).SerializeAsString();
  stream::Budget budget(kBudget);
  try {
    onnx::Model model = stream::read_onnx(stream::memory_source(stream::to_bytes(bytes), "model.onnx"), {}, budget);
    layout::ConvertOptions options;
    options.after_pass = expect_tidy;
    layout::ConvertResult converted = layout::convert(model, options, budget);
    std::string refused;
    for (const stream::Unsupported& error : converted.refused) refused += std::string(error.what()) + "\n";
    if (!refused.empty()) return "error\n" + refused;
    const fs::path output = folder / "model.tflite";
    emit::write_tflite(*converted.model, output, budget, {});
    return "tflite\n" + short_listing(stream::read_tflite(output, budget), budget);
  } catch (const stream::Error& error) {
    return std::string("error\n") + error.what() + "\n";
  }
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, CasesGiveTheirListings) {
  const fs::path path = kFolder / (GetParam() + ".txt");
  std::vector<Case> cases = read_cases(path);
  ASSERT_FALSE(cases.empty());
  const stream::ScratchFolder folder;
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  for (Case& each : cases) {
    std::string found;
    ASSERT_NO_THROW(found = found_for(each, folder)) << each.name;
    if (update)
      each.expected = found;
    else
      EXPECT_EQ(found, each.expected) << "case " << each.name << " in " << path
                                      << " (UPDATE_GOLDEN=1 writes what is found)";
  }
  if (update) write_cases(path, cases);
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(families()),
                         [](const auto& family) { return family.param; });

std::set<std::string> operators_in(const std::string& text) {
  static const std::regex kCall(R"(= ([A-Za-z_0-9.]+)[<(])");
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kCall), end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

TEST(GoldenCases, EveryOperatorHasOne) {
  std::set<std::string> used;
  for (const std::string& family : families())
    for (const Case& each : read_cases(kFolder / (family + ".txt"))) used.merge(operators_in(each.onnx));
  const std::string table = stream::read_file(kRoot / "layout/lower/table.cc");
  static const std::regex kRow(R"re(ROW\("([^"]*)", "([^"]+)")re");
  std::vector<std::string> missing;
  size_t rows = 0;
  for (std::sregex_iterator it(table.begin(), table.end(), kRow), end; it != end; ++it, ++rows) {
    const std::string domain = (*it)[1], op = (*it)[2];
    if (!used.contains(domain.empty() ? op : domain + "." + op)) missing.push_back(op);
  }
  EXPECT_GT(rows, 200u);
  EXPECT_THAT(missing, testing::IsEmpty());
}

TEST(OnnxText, MistakesAreNamedByTheirLine) {
  const std::string head = "<opset_import: [\"\": 13]>\ng (float[2,3] x) => (y) ";
  EXPECT_THROW(parse_onnx(head + "{\n  y = Relu(x\n}"), std::runtime_error);
  EXPECT_THROW(parse_onnx(head + "<floot[2] w = {1,2}> { y = Relu(x) }"), std::runtime_error);
  EXPECT_THROW(parse_onnx(head + "<float[2] w = {1,2,3}> { y = Relu(x) }"), std::runtime_error);
  try {
    parse_onnx(head + "{\n  y = Relu(x)\n  z = (x)\n}");
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("line 4: a name is expected"));
  }
}

}  // namespace
}  // namespace lowtide::golden
