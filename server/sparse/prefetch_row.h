#ifndef SERVER_SPARSE_PREFETCH_ROW_H_
#define SERVER_SPARSE_PREFETCH_ROW_H_

#include <algorithm>
#include <cstddef>

namespace capstan {

// Rows are asked for this many rows before they are used. So the CPU waits for many at a time.
inline constexpr size_t kRowsAhead = 16;

// Asks for the memory of a row, which may be null. The CPU sees by itself that a long row is read
// on.
inline void PrefetchRow(const float* row, size_t floats) {
  constexpr size_t kLine = 64 / sizeof(float);
  if (row == nullptr) return;
  for (size_t i = 0; i < std::min(floats, 4 * kLine); i += kLine) __builtin_prefetch(row + i);
}

}  // namespace capstan

#endif  // SERVER_SPARSE_PREFETCH_ROW_H_
