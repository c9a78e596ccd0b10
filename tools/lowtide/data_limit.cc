// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/data_limit.h"

#include <pthread.h>

#include <algorithm>

#include "tools/lowtide/resident.h"

namespace lowtide::tools {

DataLimit::DataLimit() { getrlimit(RLIMIT_DATA, &started_with_); }

void DataLimit::restore() const { setrlimit(RLIMIT_DATA, &started_with_); }

void DataLimit::leave(uint64_t more) const {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they allocate beside what they watch
  const uint64_t used = resident().data;
  if (used == 0 || more > RLIM_INFINITY - used) return;
  const rlimit limit = {std::min<rlim_t>(used + more, started_with_.rlim_cur), started_with_.rlim_max};
  setrlimit(RLIMIT_DATA, &limit);
#else
  static_cast<void>(more);
#endif
}

uint64_t stack_bytes(int threads) {
  pthread_attr_t attributes;
  size_t stack = 0, guard = 0;
  if (threads < 2 || pthread_getattr_default_np(&attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return static_cast<uint64_t>(threads - 1) * (stack + guard);
}

}  // namespace lowtide::tools
