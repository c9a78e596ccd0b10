// What --max-rss leaves to tiles and windows beside the memory that the process has now.
#pragma once

#include <cstdint>

// What a conversion may use while it reads and lays out the graph; at least what a model can be read in.
uint64_t reading_budget(uint64_t max_rss);
// The limit in force while weights are poured: the one asked for, or, for 0, what is usual and the graph at hand needs.
uint64_t limit_for_writing(uint64_t max_rss);
// What is left of that limit for pouring, when all that grows with the nodes is in memory: what is asked for here is
// enough. Throws Error(kBudget) naming the smallest --max-rss that would do.
uint64_t writing_budget(uint64_t max_rss);
