#include "worker/program/program_worker_state.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "proto/checkpoint.pb.h"

namespace capstan {
namespace {

// None: there is no such table.
template <typename Claim>
std::optional<int> LayerOfFirst(const std::vector<v1::TableSpec>& tables, Claim claim) {
  const auto first = absl::c_find_if(tables, claim);
  if (first == tables.end()) return std::nullopt;
  return static_cast<int>(first->layer());
}

bool IsDense(const v1::TableSpec& table) { return !table.has_sparse(); }
bool RepliesMean(const v1::TableSpec& table) { return table.replies_mean(); }

std::set<int> LayersOf(const std::vector<v1::TableSpec>& tables, std::optional<int> first) {
  std::set<int> layers;
  if (first.has_value()) layers.insert(*first);
  for (const v1::TableSpec& table : tables) {
    if (table.replies_mean()) layers.insert(static_cast<int>(table.layer()));
  }
  return layers;
}

Payload PayloadOf(std::string bytes) {
  const auto owned = std::make_shared<std::string>(std::move(bytes));
  Payload payload{owned};
  payload.Append({reinterpret_cast<const uint8_t*>(owned->data()), owned->size()});
  return payload;
}

}  // namespace

ProgramWorkerState::ProgramWorkerState(Clock* clock, ProgramSteps* steps,
                                       const std::vector<v1::TableSpec>* tables,
                                       bool has_checkpoints)
    : clock_(*clock),
      steps_(*steps),
      has_checkpoints_(has_checkpoints),
      layer_(LayerOfFirst(*tables, IsDense)),
      layers_(LayersOf(*tables, layer_)),
      has_means_(absl::c_any_of(*tables, RepliesMean)) {}

std::string ProgramWorkerState::Encode(const Pieces& pieces) {
  v1::ProgramState state;
  for (const auto& [name, bytes] : pieces) {
    v1::ProgramState::Piece& piece = *state.add_pieces();
    piece.set_name(name);
    piece.set_bytes(*bytes);
  }
  return state.SerializeAsString();
}

absl::Status ProgramWorkerState::Put(const std::string& name, absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(steps_.CheckIsWorker());
  if (name.empty()) return absl::InvalidArgumentError("name: expected one, got an empty one");
  if (!layer_.has_value()) {
    return absl::FailedPreconditionError(
        "expected a dense table in the job: only beside one a worker's state is kept");
  }
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  bool is_first = false;
  {
    MutexLock lock(&mu_);
    size_t size = name.size() + bytes.size();
    for (const auto& [other, piece] : pieces_) {
      if (other != name) size += other.size() + piece->size();
    }
    // An encoding adds some bytes to each piece.
    constexpr size_t kOverhead = 32;
    if (size + kOverhead * (pieces_.size() + 1) > kMaxProgramStateBytes) {
      return absl::InvalidArgumentError(absl::StrCat("state ", name, " has ", bytes.size(),
                                                     " bytes, and all states of the worker ", size,
                                                     ": expected less than ", kMaxProgramStateBytes,
                                                     " (64 MiB) together; what is as large "
                                                     "as the model belongs into tables"));
    }
    is_first = pieces_.empty() && has_checkpoints_ && store != nullptr;
    is_announcing_ = is_announcing_ || is_first;
    pieces_[name] = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()),
                                                        bytes.size());
  }
  if (!is_first) return absl::OkStatus();
  // From now on checkpoints wait for the pieces.
  store->SendProgramState(/*cut=*/0, Payload(), [this](const ExchangeReply& reply) {
    is_announcing_ = false;
    return reply.status;
  });
  return absl::OkStatus();
}

std::shared_ptr<const std::string> ProgramWorkerState::Get(const std::string& name) const {
  MutexLock lock(&mu_);
  const auto found = restored_.find(name);
  return found == restored_.end() ? nullptr : found->second;
}

absl::StatusOr<bool> ProgramWorkerState::AwaitDue(absl::Duration limit) {
  const absl::Time deadline = clock_.Now() + limit;
  if (!layer_.has_value() || !has_checkpoints_) return false;
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  if (store == nullptr) return false;
  {
    MutexLock lock(&mu_);
    asks_ = true;
    // The state of this step is taken already, or there is none.
    if (at_push_.has_value() || (pieces_.empty() && !has_means_)) return false;
  }
  const auto is_pushed = [this](int layer) { return steps_.IsPushed(static_cast<size_t>(layer)); };
  if (has_means_ && absl::c_any_of(layers_, is_pushed)) return false;
  for (const int layer : layers_) {
    const absl::Status waited =
        steps_.WaitIn(*store, deadline, "values are on their way",
                      [&](absl::Duration rest) { return store->WaitForLayerFor(layer, rest); });
    if (!waited.ok()) return steps_.Explain(waited, deadline);
  }
  MutexLock lock(&mu_);
  due_ = store->program_cut();
  return (due_ > sent_ && !pieces_.empty()) || store->due_table_states() > 0;
}

void ProgramWorkerState::Begin(ParameterStore& store) {
  const Payload restored = store.TakeRestoredProgramState();
  if (restored.empty()) return;
  std::string bytes(restored.size_bytes(), '\0');
  restored.CopyTo({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  v1::ProgramState state;
  if (!state.ParseFromString(bytes)) {
    return steps_.Fail(absl::DataLossError(
        "the checkpoint's state of this worker's program cannot be read; restore another one"));
  }
  MutexLock lock(&mu_);
  for (const v1::ProgramState::Piece& piece : state.pieces()) {
    restored_[piece.name()] = std::make_shared<const std::string>(piece.bytes());
  }
  pieces_ = restored_;
}

absl::Status ProgramWorkerState::AwaitKnown(ParameterStore& store, absl::Time deadline) {
  if (!is_announcing_) return absl::OkStatus();
  return steps_.WaitIn(store, deadline, "the servers have not heard of the worker's state yet",
                       [&](absl::Duration limit) { return store.WaitForCollectives(limit); });
}

void ProgramWorkerState::NotePush(size_t part, const ParameterStore& store) {
  MutexLock lock(&mu_);
  if (pieces_.empty()) return;
  if (!at_push_.has_value()) at_push_ = pieces_;
  // The next reply may have the cut before the next step already.
  const bool is_first_dense = static_cast<int>(part) == *layer_;
  if (is_first_dense && !asks_) due_ = store.program_cut();
}

void ProgramWorkerState::NoteStepEnd(ParameterStore& store) {
  Pieces pieces;
  uint64_t cut = 0;
  {
    MutexLock lock(&mu_);
    if (!at_push_.has_value()) return;
    pieces = *std::exchange(at_push_, std::nullopt);
    if (due_ <= sent_) return;
    cut = sent_ = due_;
  }
  Send(cut, pieces, store);
}

// The last pieces follow the answer to those before. Otherwise they could arrive first, and would
// be taken for these.
void ProgramWorkerState::Send(uint64_t cut, const Pieces& pieces, ParameterStore& store) {
  {
    MutexLock lock(&mu_);
    ++on_their_way_;
  }
  store.SendProgramState(cut, PayloadOf(Encode(pieces)),
                         [this, &store](const ExchangeReply& reply) {
                           std::optional<Pieces> last;
                           {
                             MutexLock lock(&mu_);
                             if (--on_their_way_ == 0) last = std::exchange(last_, std::nullopt);
                           }
                           if (last.has_value() && reply.status.ok()) Send(kFinalCut, *last, store);
                           return reply.status;
                         });
}

void ProgramWorkerState::NoteEnd(ParameterStore& store) {
  if (!has_pieces()) return;
  Pieces pieces;
  {
    MutexLock lock(&mu_);
    pieces = pieces_;
    if (on_their_way_ > 0) {
      last_ = std::move(pieces);
      return;
    }
  }
  Send(kFinalCut, pieces, store);
}

}  // namespace capstan
