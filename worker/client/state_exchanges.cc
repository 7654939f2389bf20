#include "worker/client/state_exchanges.h"

#include <utility>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/scheduler/scheduler.h"
#include "worker/client/store_traffic.h"

namespace capstan {

StateExchanges::StateExchanges(const Options& options)
    : options_(options), exchanges_(*options.exchanges), buffers_(*options.buffers) {
  for (uint32_t i = 0; i < buffers_.table_count(); ++i) {
    cuts_.emplace_back(buffers_.table(TableId(i)).slicing.slice_count());
  }
}

void StateExchanges::PullOwnState() {
  for (uint32_t i = 0; i < buffers_.table_count(); ++i) {
    if (OwnArrays(TableId(i)) == 0) continue;
    SubmitForSlices(TableId(i), [](SliceKey) { return WorkerStatePull(); });
  }
}

void StateExchanges::PushInitial(TableId table) {
  SubmitForSlices(table,
                  [this](SliceKey key) { return InitialValues{buffers_.ShareValuesOf(key)}; });
}

uint64_t StateExchanges::TakeCut(SliceKey key, Step pull_step, const ExchangeReply& reply) {
  if (OwnArrays(key.table) == 0) return 0;
  // No later answer would ask for it.
  const bool is_last = options_.last_pull_step.has_value() && pull_step >= *options_.last_pull_step;
  const uint64_t cut = is_last ? kFinalCut : reply.cut;
  uint64_t& latest = cuts_[key.table.value()][key.slice.value()];
  if (cut <= latest) return 0;
  latest = cut;
  return cut;
}

void StateExchanges::SendOwnState(SliceKey key, uint64_t cut) {
  absl::StatusOr<Payload> state = OwnStateOf(key);
  if (!state.ok()) return exchanges_.Fail(state.status());
  Submit(key, WorkerState{cut, *std::move(state)});
}

uint32_t StateExchanges::OwnArrays(TableId table) const {
  const uint32_t of_engine = options_.own_state == nullptr ? 0 : options_.own_state->arrays();
  return of_engine + options_.encoder->arrays(table);
}

absl::StatusOr<Payload> StateExchanges::OwnStateOf(SliceKey key) {
  if (options_.encoder->arrays(key.table) == 0) return options_.own_state->Save(key);
  ASSIGN_OR_RETURN(Payload of_encoder, options_.encoder->SaveState(key));
  if (options_.own_state == nullptr) return of_encoder;
  Payload both = options_.own_state->Save(key);
  both.Append(of_encoder);
  return both;
}

absl::Status StateExchanges::LoadOwnState(SliceKey key, const Payload& state) {
  const size_t size = buffers_.ValuesOf(key).size();
  std::vector<float> arrays(OwnArrays(key.table) * size);
  if (state.size_bytes() != arrays.size() * sizeof(float)) {
    return absl::InternalError(absl::StrCat("a server sent ", state.size_bytes(),
                                            " bytes for an own state of ",
                                            arrays.size() * sizeof(float)));
  }
  state.CopyTo(absl::MakeSpan(arrays));
  absl::Span<const float> of_engine = arrays;
  if (const size_t of_encoder = options_.encoder->arrays(key.table) * size; of_encoder > 0) {
    RETURN_IF_ERROR(options_.encoder->LoadState(key, of_engine.last(of_encoder)));
    of_engine.remove_suffix(of_encoder);
  }
  if (options_.own_state != nullptr) options_.own_state->Load(key, of_engine);
  return absl::OkStatus();
}

void StateExchanges::SubmitForSlices(
    TableId id, absl::FunctionRef<decltype(ExchangeRequest::purpose)(SliceKey)> make) {
  const ParameterBuffers::Table& table = buffers_.table(id);
  for (uint32_t slice = 0; slice < table.slicing.slice_count(); ++slice) {
    const SliceKey key = {id, SliceIndex(slice)};
    exchanges_.Open(table.layer, /*exchanges=*/1);
    Submit(key, make(key));
  }
}

void StateExchanges::Submit(SliceKey key, decltype(ExchangeRequest::purpose) purpose) {
  ExchangeRequest request = {exchanges_.sender(), Epoch(), key, std::move(purpose)};
  Transfer transfer;
  transfer.layer = buffers_.table(key.table).layer;
  transfer.bytes = PayloadBytes(request);
  transfer.start = [this, key,
                    request = std::move(request)](absl::AnyInvocable<void()> credited) mutable {
    const bool is_pull = std::holds_alternative<WorkerStatePull>(request.purpose);
    exchanges_.client().Exchange(
        std::move(request), std::move(credited),
        [this, key, is_pull](const ExchangeReply& reply) { OnReply(key, is_pull, reply); });
  };
  exchanges_.scheduler().Submit(std::move(transfer));
}

void StateExchanges::OnReply(SliceKey key, bool is_pull, const ExchangeReply& reply) {
  absl::Status status = reply.status;
  if (status.ok()) exchanges_.traffic().CountExchange();
  if (status.ok() && is_pull && !reply.values.empty()) status = LoadOwnState(key, reply.values);
  exchanges_.Close(buffers_.table(key.table).layer, status);
}

}  // namespace capstan
