#ifndef COMMON_JOB_JOB_FLAG_TABLE_H_
#define COMMON_JOB_JOB_FLAG_TABLE_H_

#include <google/protobuf/descriptor.h>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"

namespace capstan {

// A flag for one field of the job.
struct JobFlag {
  absl::string_view group;  // its heading in help
  absl::string_view name;   // without dashes
  absl::string_view field;  // path in JobSpec, such as "optimizer.learning_rate"
  absl::string_view value;  // the value's name in help, with its unit; empty for bool and enum
  absl::string_view help;   // one sentence or two
  // This flag matters only if another flag has one of these values, as "optimizer=adam,adamw".
  // Empty: it always matters.
  absl::string_view only_with = "";
};

// The group of the flags on data.
inline constexpr absl::string_view kDataFlags = "Data";

// A field of the job, and its message.
struct JobField {
  google::protobuf::Message* message;
  const google::protobuf::FieldDescriptor* descriptor;
};

// Every job flag, in the order of help.
absl::Span<const JobFlag> JobFlags();

// Null when no job flag has this name.
const JobFlag* FindJobFlag(absl::string_view name);

// The flag's field within `job`, which must outlive the result. Creates the messages on the way,
// without changing what they hold.
JobField FieldOf(const JobFlag& flag, v1::JobSpec* job);

}  // namespace capstan

#endif  // COMMON_JOB_JOB_FLAG_TABLE_H_
