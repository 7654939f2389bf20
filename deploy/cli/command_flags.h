#ifndef DEPLOY_CLI_COMMAND_FLAGS_H_
#define DEPLOY_CLI_COMMAND_FLAGS_H_

#include "absl/types/span.h"
#include "deploy/cli/command_line.h"

namespace capstan {

// Flags of `capstan run`, besides the job flags.
absl::Span<const CommandFlag> RunFlags();

// Flags of the other commands.
absl::Span<const CommandFlag> AddressFlags();
absl::Span<const CommandFlag> StatusFlags();
absl::Span<const CommandFlag> SetFlags();
absl::Span<const CommandFlag> CheckFlags();
absl::Span<const CommandFlag> CheckpointFlags();
absl::Span<const CommandFlag> EvaluateFlags();
absl::Span<const CommandFlag> ExportFlags();
absl::Span<const CommandFlag> GetFlags();
absl::Span<const CommandFlag> JobCommandFlags();
absl::Span<const CommandFlag> KeysFlags();
absl::Span<const CommandFlag> ReportFlags();
absl::Span<const CommandFlag> TopFlags();
absl::Span<const CommandFlag> TraceFlags();

}  // namespace capstan

#endif  // DEPLOY_CLI_COMMAND_FLAGS_H_
