#include "tests/simulation/codec_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/codec/changed_values.h"
#include "common/exchange/payload.h"

namespace capstan {
namespace {

FinalResidual ResidualIn(const ExchangeRequest& request, uint32_t own_arrays) {
  const Payload& arrays = std::get<WorkerState>(request.purpose).arrays;
  std::vector<float> state(arrays.size_bytes() / sizeof(float));
  arrays.CopyTo(absl::MakeSpan(state));
  const auto begin = state.end() - static_cast<int64_t>(state.size() / own_arrays);
  return {request.sender.worker, request.slice, {begin, state.end()}};
}

// Notes what came with this version first. Says that the worker got something else, unless another
// answer was wrong before.
template <typename Key, typename Value>
void Compare(const char* rule, SliceKey slice, WorkerId worker, uint64_t version, const Key& key,
             const Value& value, std::map<Key, Value>& first, std::string& wrong) {
  const auto [found, is_first] = first.emplace(key, value);
  if (is_first || found->second == value || !wrong.empty()) return;
  wrong = absl::StrCat(rule, " a version: worker ", worker.value(), " got another one of version ",
                       version, " of slice ", slice.slice.value(), " of table ",
                       slice.table.value(), " than an answer before");
}

void CompareBytes(SliceKey slice, WorkerId worker, const ExchangeReply& reply, CodecWatch& watch) {
  std::string bytes(reply.values.size_bytes(), '\0');
  reply.values.CopyTo(absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()));
  Compare("one encoding", slice, worker, reply.version,
          std::make_pair(std::make_pair(slice, reply.version), reply.codec), bytes,
          watch.values_of_version, watch.wrong_values);
}

}  // namespace

void CodecWatchEndpoint::TakeCopy(SliceKey slice, WorkerId id, const ExchangeReply& reply,
                                  Worker& worker) {
  auto& [copy, number] = worker.copies[slice];
  const bool is_same = std::exchange(number, reply.copy) == reply.copy;
  const Payload values = reply.values.InOnePiece();
  if (reply.codec == CodecType::kFloat32) {
    copy.resize(values.size_bytes() / sizeof(float));
    values.CopyTo(absl::MakeSpan(copy));
  } else if (reply.codec == CodecType::kChanged) {
    ApplyChanged(values.piece(), absl::MakeSpan(copy));
  } else {
    const Codec& codec = *worker.options.pull_codecs.at(slice.table.value());
    codec.DecodeAdd(values.piece(), copy.size(), /*begin=*/0, absl::MakeSpan(copy));
  }
  // After changes a copy lacks nothing. Otherwise each worker may lack something else.
  const bool is_exact = reply.codec == CodecType::kChanged && !is_same;
  if (!worker.options.is_bsp && !is_exact) return;
  CodecWatch& watch = worker.watch;
  Compare("one copy", slice, id, reply.version, std::make_pair(slice, reply.version), copy,
          watch.copies, watch.wrong_values);
}

void CodecWatchEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                  ReplyCallback done) {
  if (LeavesParameters(request)) {
    const auto* state = std::get_if<WorkerState>(&request.purpose);
    const bool is_last = state != nullptr && !state->is_program && state->cut == kFinalCut;
    if (is_last && worker_->options.own_arrays > 0) {
      worker_->watch.residuals.push_back(ResidualIn(request, worker_->options.own_arrays));
    }
    return inner_->Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  const SliceKey slice = request.slice;
  const WorkerId id = request.sender.worker;
  inner_->Exchange(
      std::move(request), std::move(delivered),
      [worker = worker_, slice, id, done = std::move(done)](ExchangeReply reply) mutable {
        if (reply.copy != 0) {
          TakeCopy(slice, id, reply, *worker);
        } else if (reply.status.ok() && !reply.values.empty()) {
          CompareBytes(slice, id, reply, worker->watch);
        }
        done(std::move(reply));
      });
}

}  // namespace capstan
