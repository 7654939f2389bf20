#include "tests/simulation/codec_watch.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace capstan {
namespace {

FinalResidual ResidualIn(const ExchangeRequest& request, uint32_t own_arrays) {
  std::vector<float> state(request.gradient.size_bytes() / sizeof(float));
  request.gradient.CopyTo(absl::MakeSpan(state));
  const auto begin = state.end() - static_cast<int64_t>(state.size() / own_arrays);
  return {request.worker, request.slice, {begin, state.end()}};
}

void Compare(SliceKey slice, WorkerId worker, const ExchangeReply& reply, CodecWatch& watch) {
  std::string bytes(reply.values.size_bytes(), '\0');
  reply.values.CopyTo(absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()));
  const auto [first, is_first] =
      watch.values_of_version.emplace(std::make_tuple(slice, reply.version, reply.codec), bytes);
  if (is_first || first->second == bytes || !watch.wrong_values.empty()) return;
  watch.wrong_values =
      absl::StrCat("one encoding a version: worker ", worker.value(),
                   " got other bytes of version ", reply.version, " of slice ", slice.slice.value(),
                   " of table ", slice.table.value(), " than an answer before");
}

}  // namespace

void CodecWatchEndpoint::Exchange(ExchangeRequest request, DeliveredCallback delivered,
                                  ReplyCallback done) {
  if (MovesOwnState(request)) {
    if (request.own_cut == kFinalCut && own_arrays_ > 0) {
      watch_.residuals.push_back(ResidualIn(request, own_arrays_));
    }
    return inner_->Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  const SliceKey slice = request.slice;
  const WorkerId worker = request.worker;
  inner_->Exchange(
      std::move(request), std::move(delivered),
      [&watch = watch_, slice, worker, done = std::move(done)](ExchangeReply reply) mutable {
        if (reply.status.ok() && !reply.values.empty()) Compare(slice, worker, reply, watch);
        done(std::move(reply));
      });
}

}  // namespace capstan
