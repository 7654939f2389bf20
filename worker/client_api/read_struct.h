#ifndef WORKER_CLIENT_API_READ_STRUCT_H_
#define WORKER_CLIENT_API_READ_STRUCT_H_

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Copies a struct of capstan.h from a program that may have an older header: the fields that the
// program does not know are 0. `struct_size` is the first field. `first_end` was the last one when
// the struct was new. INVALID_ARGUMENT: there is no struct, or its size is below the first one or
// above ours.
template <typename Struct, typename Field>
absl::StatusOr<Struct> ReadStruct(const Struct* given, Field Struct::*first_end,
                                  absl::string_view name) {
  static_assert(std::is_trivially_copyable_v<Struct> && offsetof(Struct, struct_size) == 0);
  if (given == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected one, got NULL"));
  }
  Struct read = {};
  const auto first_size = static_cast<size_t>(
      reinterpret_cast<const char*>(&(read.*first_end) + 1) - reinterpret_cast<const char*>(&read));
  const size_t size = given->struct_size;
  if (size < first_size) {
    return absl::InvalidArgumentError(absl::StrCat("struct_size: expected sizeof(", name, "), ",
                                                   sizeof(Struct), ", got ", size,
                                                   "; set it before the call"));
  }
  if (size > sizeof(Struct)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "struct_size: expected sizeof(", name, ") of this library, at most ", sizeof(Struct),
        ", got ", size,
        "; the program was built with a newer capstan.h, so give it the library of that version"));
  }
  std::memcpy(&read, given, size);
  return read;
}

}  // namespace capstan

#endif  // WORKER_CLIENT_API_READ_STRUCT_H_
