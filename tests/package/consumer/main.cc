// SPDX-License-Identifier: Apache-2.0
// A program of another project: it converts a model, and lists it.
#include <lowtide/lowtide.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  lowtide::ConvertOptions options;
  options.progress = [](const lowtide::Progress& progress) { std::cerr << progress.phase << '\n'; };
  const lowtide::Conversion done = lowtide::convert(argv[1], argv[2], options);
  std::cout << done.output_bytes << " bytes, " << done.operators << " operators\n" << lowtide::inspect(argv[2]);
} catch (const lowtide::Error& error) {
  std::cerr << error.what() << '\n';
  for (const lowtide::RefusedNode& node : error.nodes()) std::cerr << node.op << ": " << node.reason << '\n';
  return static_cast<int>(error.kind());
}
