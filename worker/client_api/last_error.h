#ifndef WORKER_CLIENT_API_LAST_ERROR_H_
#define WORKER_CLIENT_API_LAST_ERROR_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/client_api/capstan.h"

namespace capstan {

// What a function of capstan.h returns, and the calling thread's text for capstan_last_error.
// Thread-safe, and throws nothing.

const char* LastError();
void SetLastError(absl::string_view message);

// The code of `status`. An error sets the text.
capstan_status Return(const absl::Status& status);
// The same for what ClientJob::Connect returns. Its errors are about the job, whatever their code.
capstan_status ReturnFailure(const absl::Status& status);

// Calls `call`. No exception gets into the program.
capstan_status Guarded(absl::FunctionRef<capstan_status()> call);

}  // namespace capstan

#endif  // WORKER_CLIENT_API_LAST_ERROR_H_
