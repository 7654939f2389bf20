#include "worker/models/sparse_training/evaluate_stream.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/dataset/sparse/binary_metrics.h"

namespace capstan {
namespace {

// The entropy of labels with a part `share` of one kind, in nats.
double Entropy(double share) {
  const auto term = [](double part) { return part > 0 ? -part * std::log(part) : 0; };
  return term(share) + term(1 - share);
}

// Empty if there are samples with each label, or none.
std::string OneLabelText(const LabelCounts& counts, absl::string_view which) {
  const uint64_t all = counts.zeros + counts.ones;
  if (all == 0 || (counts.zeros > 0 && counts.ones > 0)) return "";
  return absl::StrCat("all ", all, " samples ", which, " have the label ", counts.ones > 0 ? 1 : 0);
}

// What is probably wrong with the labels, and what to do; empty: nothing.
std::string LabelWarning(const LabelCounts& training, const LabelCounts& test) {
  std::string of_training = OneLabelText(training, "for training");
  std::string of_test = OneLabelText(test, "of the test");
  if (!of_test.empty()) of_test += ", so that there is no AUC, which compares the two labels";
  if (of_training.empty() && of_test.empty()) return "";
  return absl::StrCat(of_training, of_training.empty() || of_test.empty() ? "" : "; ", of_test,
                      ": check that these are the right files, and that the label is in the right "
                      "column (--columns)");
}

double ShareOfOnes(const LabelCounts& counts) {
  const uint64_t all = counts.zeros + counts.ones;
  return all == 0 ? 0 : static_cast<double>(counts.ones) / static_cast<double>(all);
}

}  // namespace

void LabelCounts::Add(absl::Span<const float> labels) {
  const auto count = std::count(labels.begin(), labels.end(), 1.0f);
  ones += static_cast<uint64_t>(count);
  zeros += labels.size() - static_cast<uint64_t>(count);
}

absl::Status EvaluateStream(
    SampleStream& test, size_t batch_size, const LabelCounts& training,
    absl::FunctionRef<absl::Status(const SparseBatch& batch, absl::Span<float> log_odds)>
        log_odds_of,
    v1::ReportResultRequest& result) {
  BinaryMetrics metrics;
  LabelCounts counts;
  std::vector<float> scores, labels;
  SparseBatch batch;
  while (true) {
    ASSIGN_OR_RETURN(const size_t count, test.Next(batch_size, &batch));
    if (count == 0) break;
    const size_t before = scores.size();
    scores.resize(before + count);
    RETURN_IF_ERROR(log_odds_of(batch, absl::MakeSpan(scores).subspan(before)));
    labels.insert(labels.end(), batch.labels().begin(), batch.labels().end());
    for (size_t i = 0; i < count; ++i) metrics.Add(scores[before + i], labels[before + i]);
    counts.Add(batch.labels());
  }
  result.set_test_accuracy(metrics.accuracy());
  result.set_test_loss(metrics.log_loss());
  result.set_test_samples(metrics.count());
  result.set_data_warning(LabelWarning(training, counts));
  // None if all labels are equal, or the model has diverged.
  const absl::StatusOr<double> auc = Auc(scores, labels);
  if (auc.ok()) result.set_test_auc(*auc);
  result.set_guess_loss(Entropy(ShareOfOnes(training)));
  const double share = ShareOfOnes(counts);
  result.set_guess_accuracy(std::max(share, 1 - share));
  return absl::OkStatus();
}

}  // namespace capstan
