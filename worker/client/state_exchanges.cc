#include "worker/client/state_exchanges.h"

#include <algorithm>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/scheduler/scheduler.h"
#include "worker/client/store_traffic.h"

namespace capstan {

StateExchanges::StateExchanges(const Options& options)
    : options_(options), exchanges_(*options.exchanges), buffers_(*options.buffers) {
  std::vector<Slicing> slicings;
  for (uint32_t i = 0; i < buffers_.table_count(); ++i) {
    const ParameterBuffers::Table& table = buffers_.table(TableId(i));
    slicings.push_back(table.slicing);
    cuts_.emplace_back(table.slicing.slice_count());
    const bool has_state = table.replies_mean && exchanges_.sender().worker == WorkerId(0);
    MutexLock lock(&mu_);
    table_cuts_.emplace_back(has_state ? table.slicing.slice_count() : 0);
  }
  if (options_.own_state != nullptr) options_.own_state->UseSlices(slicings);
}

void StateExchanges::PullOwnState() {
  for (uint32_t i = 0; i < buffers_.table_count(); ++i) {
    if (OwnArrays(TableId(i)) == 0) continue;
    SubmitForSlices(
        TableId(i), [](SliceKey) { return WorkerStatePull(); },
        [this](SliceKey key, const ExchangeReply& reply) -> absl::Status {
          RETURN_IF_ERROR(reply.status);
          return reply.values.empty() ? absl::OkStatus() : LoadOwnState(key, reply.values);
        });
  }
}

void StateExchanges::PushInitial(TableId table) {
  SubmitForSlices(table,
                  [this](SliceKey key) { return InitialValues{buffers_.ShareValuesOf(key)}; });
}

void StateExchanges::PullOptimizerState(TableId table, uint32_t array,
                                        const std::shared_ptr<OptimizerArray>& to) {
  const auto take = [this, to](SliceKey key, const ExchangeReply& reply) -> absl::Status {
    if (absl::IsInvalidArgument(reply.status) && buffers_.table(key.table).replies_mean) {
      // Only a restored slice has arrays, and nobody knows here how many.
      to->is_missing = true;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(reply.status);
    const absl::Span<float> values = PartOf(key, absl::MakeSpan(to->values));
    if (reply.values.size_bytes() != values.size() * sizeof(float)) {
      return absl::InternalError(absl::StrCat("a server sent ", reply.values.size_bytes(),
                                              " bytes for an optimizer's state of ",
                                              values.size() * sizeof(float)));
    }
    reply.values.CopyTo(values);
    uint64_t steps = to->steps.load();
    while (steps < reply.optimizer_steps &&
           !to->steps.compare_exchange_weak(steps, reply.optimizer_steps)) {
    }
    return absl::OkStatus();
  };
  SubmitForSlices(
      table, [array](SliceKey) { return OptimizerStatePull{array}; }, take);
}

void StateExchanges::PushOptimizerState(TableId table, uint32_t array, uint64_t steps,
                                        const std::shared_ptr<const std::vector<float>>& values) {
  SubmitForSlices(table, [&](SliceKey key) {
    return OptimizerState{array, steps, Payload(PartOf(key, absl::MakeConstSpan(*values)), values)};
  });
}

bool StateExchanges::IsTableStateDue(TableId table) const {
  MutexLock lock(&mu_);
  const std::vector<TableCut>& cuts = table_cuts_[table.value()];
  return std::any_of(cuts.begin(), cuts.end(), [](const TableCut& cut) { return cut.is_due; });
}

void StateExchanges::NoteTableCut(SliceKey key, const ExchangeReply& reply) {
  MutexLock lock(&mu_);
  std::vector<TableCut>& cuts = table_cuts_[key.table.value()];
  if (cuts.empty()) return;
  TableCut& cut = cuts[key.slice.value()];
  if (reply.cut <= cut.latest) return;
  cut.latest = reply.cut;
  if (!std::exchange(cut.is_due, true)) ++due_table_states_;
}

void StateExchanges::PushTableState(
    TableId id, bool is_last,
    const std::shared_ptr<const std::vector<std::vector<float>>>& arrays) {
  std::vector<std::pair<SliceKey, uint64_t>> due;  // with the cut
  {
    MutexLock lock(&mu_);
    std::vector<TableCut>& cuts = table_cuts_[id.value()];
    for (uint32_t slice = 0; slice < cuts.size(); ++slice) {
      TableCut& cut = cuts[slice];
      if (!cut.is_due && !is_last) continue;
      if (std::exchange(cut.is_due, false)) --due_table_states_;
      due.push_back({{id, SliceIndex(slice)}, is_last ? kFinalCut : cut.latest});
    }
  }
  for (const auto& [key, cut] : due) {
    Payload parts;
    for (const std::vector<float>& array : *arrays) {
      parts.Append(Payload(PartOf(key, absl::MakeConstSpan(array)), arrays));
    }
    OpenAndSubmit(key, TableState{cut, std::move(parts)}, /*take=*/nullptr);
  }
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

void StateExchanges::PushLastOwnState() {
  if (!options_.last_pull_step.has_value()) return;
  for (uint32_t i = 0; i < buffers_.table_count(); ++i) {
    if (OwnArrays(TableId(i)) == 0) continue;
    for (uint32_t slice = 0; slice < cuts_[i].size(); ++slice) {
      if (std::exchange(cuts_[i][slice], kFinalCut) == kFinalCut) continue;
      exchanges_.Open(buffers_.table(TableId(i)).layer, /*exchanges=*/1);
      SendOwnState({TableId(i), SliceIndex(slice)}, kFinalCut);
    }
  }
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
    TableId id, absl::FunctionRef<decltype(ExchangeRequest::purpose)(SliceKey)> make,
    const Taker& take) {
  const ParameterBuffers::Table& table = buffers_.table(id);
  for (uint32_t slice = 0; slice < table.slicing.slice_count(); ++slice) {
    const SliceKey key = {id, SliceIndex(slice)};
    OpenAndSubmit(key, make(key), take);
  }
}

void StateExchanges::OpenAndSubmit(SliceKey key, decltype(ExchangeRequest::purpose) purpose,
                                   Taker take) {
  exchanges_.Open(buffers_.table(key.table).layer, /*exchanges=*/1);
  Submit(key, std::move(purpose), std::move(take));
}

void StateExchanges::Submit(SliceKey key, decltype(ExchangeRequest::purpose) purpose, Taker take) {
  ExchangeRequest request = {exchanges_.sender(), Epoch(), key, std::move(purpose)};
  Transfer transfer;
  transfer.layer = buffers_.table(key.table).layer;
  transfer.bytes = PayloadBytes(request);
  transfer.start = [this, key, request = std::move(request),
                    take = std::move(take)](absl::AnyInvocable<void()> credited) mutable {
    exchanges_.client().Exchange(std::move(request), std::move(credited),
                                 [this, key, take = std::move(take)](const ExchangeReply& reply) {
                                   OnReply(key, take, reply);
                                 });
  };
  exchanges_.scheduler().Submit(std::move(transfer));
}

void StateExchanges::OnReply(SliceKey key, const Taker& take, const ExchangeReply& reply) {
  if (reply.status.ok()) exchanges_.traffic().CountExchange();
  const absl::Status status = take == nullptr ? reply.status : take(key, reply);
  exchanges_.Close(buffers_.table(key.table).layer, status);
}

}  // namespace capstan
