#include "server/shard/collective_part.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

const char* TextOf(CollectiveType type) {
  switch (type) {
    case CollectiveType::kSum:
      return "the sum";
    case CollectiveType::kMean:
      return "the mean";
    case CollectiveType::kMin:
      return "the minimum";
    case CollectiveType::kMax:
      return "the maximum";
    case CollectiveType::kBroadcast:
      return "a broadcast";
    case CollectiveType::kBarrier:
      return "a barrier";
    case CollectiveType::kJoin:
      return "a join";
    case CollectiveType::kEndOfStep:
      return "the step's end";
  }
  return "nothing known";
}

// Bytes that the worker is to send.
size_t ExpectedBytes(WorkerId sender, const Collective& part) {
  const bool counts =
      Combines(part.type) || (part.type == CollectiveType::kBroadcast && part.root == sender);
  return counts ? NumElements(part.shape) * BytesOf(part.dtype) : 0;
}

}  // namespace

absl::Status CheckPart(WorkerId sender, const Collective& part) {
  if (part.step < Step(0) || part.step > kLargestStep) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a step from 0 on, got ", part.step.value()));
  }
  if (part.type < CollectiveType::kSum || part.type > CollectiveType::kEndOfStep) {
    return absl::InvalidArgumentError(
        absl::StrCat("got an operation of unknown type ", static_cast<int>(part.type)));
  }
  if (HasElements(part.type)) {
    RETURN_IF_ERROR(CheckElements(part.shape, part.dtype));
  } else if (!part.shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("expected no shape of ", Describe(part),
                                                   ", got ", part.shape.size(), " dimensions"));
  }
  if (part.type == CollectiveType::kMean && part.dtype == CollectiveDtype::kInt64) {
    return absl::InvalidArgumentError(
        "expected floats for a mean, got int64: take the sum, or convert them");
  }
  const size_t bytes = ExpectedBytes(sender, part);
  if (part.values.size_bytes() == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("expected ", bytes, " bytes for ", Describe(part),
                                                 ", got ", part.values.size_bytes()));
}

bool Combines(CollectiveType type) {
  return CollectiveType::kSum <= type && type <= CollectiveType::kMax;
}

bool IsSame(const Collective& a, const Collective& b) {
  return a.step == b.step && a.number == b.number && a.type == b.type && a.dtype == b.dtype &&
         a.shape == b.shape && a.root == b.root;
}

std::string Describe(const Collective& part) {
  if (!HasElements(part.type)) return TextOf(part.type);
  const std::string text =
      absl::StrCat(TextOf(part.type), " of ", ElementsText(part.shape, part.dtype));
  if (Combines(part.type)) return text;
  return absl::StrCat(text, " from worker ", part.root.value());
}

std::string WhichOf(const Collective& part) {
  return absl::StrCat("operation ", part.number, " of step ", part.step.value());
}

}  // namespace capstan
