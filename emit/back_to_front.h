// SPDX-License-Identifier: Apache-2.0
// Writes the payloads of a planned file from its end to its front.
//
// The file is written in chunks of at most a few MiB: a part of a large payload, or many small payloads with the gaps
// between them. Each thread takes the next chunk towards the front, fills a buffer and writes it. The bytes do not
// depend on the chunks, so the file is the same for every budget and number of threads.
#pragma once

#include <functional>

#include "emit/plan.h"
#include "stream/file/budget.h"
#include "stream/file/out_file.h"

namespace lowtide::emit {

// Visits the ranges of the file with data, in order; the others are holes of inputs that are copied as holes.
void for_each_data(const Plan& plan, const std::function<void(stream::Range)>& visit);

// The smallest budget for write_payloads.
uint64_t least_for_writing(const Plan& plan);
// Threads share what is free in the budget. Throws the errors of sources, recipes and the output, with the name of the
// tensor. The header is not written here.
void write_payloads(const Plan& plan, stream::OutFile& out, stream::Budget& budget, const WriteOptions& options);

}  // namespace lowtide::emit
