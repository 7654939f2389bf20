#include "worker/client_api/last_error.h"

#include <exception>
#include <new>
#include <string>

namespace capstan {
namespace {

constexpr char kOutOfMemory[] =
    "there is not enough memory for the call; free some and call again, or close the job";

thread_local std::string last_message;
thread_local const char* last_error = "";  // last_message, or a constant

capstan_status CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return CAPSTAN_OK;
    case absl::StatusCode::kDeadlineExceeded:
      return CAPSTAN_TIMEOUT;
    case absl::StatusCode::kInvalidArgument:
      return CAPSTAN_INVALID_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return CAPSTAN_WRONG_ORDER;
    case absl::StatusCode::kCancelled:
      return CAPSTAN_LEFT;
    case absl::StatusCode::kResourceExhausted:
      return CAPSTAN_OUT_OF_MEMORY;
    default:
      return CAPSTAN_FAILED;
  }
}

}  // namespace

const char* LastError() { return last_error; }

void SetLastError(absl::string_view message) {
  try {
    last_message.assign(message.data(), message.size());
    last_error = last_message.c_str();
  } catch (const std::bad_alloc&) {
    last_error = kOutOfMemory;
  }
}

capstan_status Return(const absl::Status& status) {
  if (!status.ok()) SetLastError(status.message());
  return CodeOf(status);
}

capstan_status ReturnFailure(const absl::Status& status) {
  const capstan_status code = Return(status);
  const bool is_kept = code == CAPSTAN_OK || code == CAPSTAN_OUT_OF_MEMORY;
  return is_kept ? code : CAPSTAN_FAILED;
}

capstan_status Guarded(absl::FunctionRef<capstan_status()> call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    last_error = kOutOfMemory;
    return CAPSTAN_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    SetLastError(error.what());
    return CAPSTAN_FAILED;
  }
}

}  // namespace capstan
