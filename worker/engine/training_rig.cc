#include "worker/engine/training_rig.h"

#include <glog/logging.h>

#include <cmath>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/codec/changed_values.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "common/routing/job_view.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"
#include "common/scheduler/transfer_queue.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

constexpr uint32_t kShardCount = 1;

// Holds the values, and replies on the clock's thread.
class SgdEndpoint : public ParameterEndpoint {
 public:
  // Counts its exchanges in `exchanges`.
  SgdEndpoint(const std::vector<v1::TableSpec>& tables, const TrainingRig::Options& options,
              Clock* clock, std::atomic<int64_t>* exchanges)
      : options_(options), clock_(clock), exchanges_(exchanges) {
    Random random(options.seed);
    for (const v1::TableSpec& table : tables) {
      slicings_.emplace_back(ElementCount(table), options.slice_bytes);
      std::vector<float>& values = values_.emplace_back(ElementCount(table));
      for (float& value : values) {
        value = static_cast<float>(table.initial_stddev()) * random.Normal();
      }
    }
  }

  ~SgdEndpoint() override {
    MutexLock lock(&mu_);
    while (open_ > 0) clock_->WaitUntil(mu_, answered_, absl::InfiniteFuture());
  }

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    ++*exchanges_;
    {
      MutexLock lock(&mu_);
      ++open_;
    }
    delivered();
    auto call = std::make_shared<Call>(Call{std::move(request), std::move(done)});
    clock_->RunAfter(absl::ZeroDuration(), [this, call] {
      Answer(*call);
      MutexLock lock(&mu_);
      --open_;
      answered_.NotifyAll();
    });
  }

 private:
  struct Call {
    ExchangeRequest request;
    ReplyCallback done;
  };

  void Answer(Call& call) {
    if (!std::holds_alternative<DenseStep>(call.request.purpose)) {
      return call.done(ExchangeReply());  // a program tells of its step's end
    }
    const SliceKey slice = call.request.slice;
    const SliceRange range = slicings_[slice.table.value()].Range(slice.slice);
    float* const values = &values_[slice.table.value()][range.offset];
    const auto& step = std::get<DenseStep>(call.request.purpose);
    if (step.push.has_value() && step.push->gradient.has_value()) {
      std::vector<float> gradient(range.size);
      const Payload bytes = step.push->gradient->bytes.InOnePiece();
      const Codec& push = options_.codecs.PushOf(step.push->step, step.push->gradient->codec);
      CHECK_EQ(push.Check(bytes.piece(), range.size), absl::OkStatus());
      push.Decode(bytes.piece(), range.size, /*begin=*/0, absl::MakeSpan(gradient));
      for (size_t i = 0; i < range.size; ++i) values[i] -= options_.learning_rate * gradient[i];
    }
    ExchangeReply reply;
    const Codec& codec = step.pull->is_float32 ? *float32_ : *options_.codecs.pull;
    if (IsTopk(codec.type())) {
      SetDifference(slice, step, {values, range.size}, reply);
    } else {
      reply.codec = codec.type();
      reply.values = Encoded(codec, {values, range.size}, slice, step.pull->step);
    }
    reply.min_step = step.pull->step;
    call.done(std::move(reply));
  }

  // The first reply is whole. After that, a difference and the changed elements take turns.
  void SetDifference(SliceKey slice, const DenseStep& step, absl::Span<const float> values,
                     ExchangeReply& reply) {
    const Codec& codec = *options_.codecs.pull;
    std::vector<float>& copy = copies_[slice];
    CHECK_EQ(step.copy, copy.empty() ? 0 : number_of_copy_[slice]);
    reply.copy = ++number_of_copy_[slice];
    if (copy.empty()) {
      copy.assign(values.begin(), values.end());
      reply.values = Encoded(*float32_, values, slice, step.pull->step);
      return;
    }
    const size_t changed = ChangedBytes(CountChanged(copy, values));
    if (reply.copy % 2 == 0 && changed <= MostChangedBytes(codec, values.size())) {
      const auto bytes = std::make_shared<std::vector<uint8_t>>(changed);
      EncodeChanged(copy, values, absl::MakeSpan(*bytes));
      reply.codec = CodecType::kChanged;
      reply.values = Payload(bytes);
      reply.values.Append(*bytes);
      copy.assign(values.begin(), values.end());
      return;
    }
    std::vector<float> difference(values.size());
    for (size_t i = 0; i < values.size(); ++i) difference[i] = values[i] - copy[i];
    reply.codec = codec.type();
    reply.values = Encoded(codec, difference, slice, step.pull->step);
    codec.DecodeAdd(reply.values.piece(), copy.size(), /*begin=*/0, absl::MakeSpan(copy));
  }

  Payload Encoded(const Codec& codec, absl::Span<const float> values, SliceKey slice,
                  Step step) const {
    const DrawKey draws = {options_.seed, slice.table, WorkerId(99), step,
                           slicings_[slice.table.value()].Range(slice.slice).offset};
    auto bytes = std::make_shared<std::vector<uint8_t>>(codec.EncodedBytes(values.size()));
    CHECK(codec.Encode(values, draws, {}, absl::MakeSpan(*bytes)).ok());
    Payload payload(bytes);
    payload.Append(*bytes);
    return payload;
  }

  const TrainingRig::Options options_;
  const std::shared_ptr<const Codec> float32_ = MakeCodec("float32").value();
  Clock* const clock_;
  std::atomic<int64_t>* const exchanges_;
  std::vector<Slicing> slicings_;
  std::vector<std::vector<float>> values_;  // only the clock's thread touches them
  // What the worker has, if its pulls get differences.
  std::map<SliceKey, std::vector<float>> copies_;
  std::map<SliceKey, uint64_t> number_of_copy_;

  Mutex mu_;
  CondVar answered_;
  int64_t open_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

Dataset RandomDataset(int samples, int features, int classes, uint64_t seed) {
  Random random(seed);
  Dataset dataset;
  dataset.feature_count = features;
  dataset.class_count = classes;
  dataset.features.resize(static_cast<size_t>(samples) * features);
  for (float& feature : dataset.features) feature = random.Normal();
  for (int i = 0; i < samples; ++i) {
    dataset.labels.push_back(static_cast<int32_t>(random.UniformInt(classes)));
  }
  return dataset;
}

TrainingRig::TrainingRig(Engine* engine, Clock* clock, const Options& options)
    : engine_(engine),
      clock_(clock),
      options_(options),
      scheduler_(/*credit_bytes=*/1 << 16, std::make_unique<PriorityQueue>()) {}

absl::StatusOr<std::unique_ptr<TrainingRig>> TrainingRig::Create(Engine* engine, Clock* clock,
                                                                 const Options& options) {
  std::unique_ptr<TrainingRig> rig(new TrainingRig(engine, clock, options));
  RETURN_IF_ERROR(rig->Start());
  return rig;
}

TrainingRig::~TrainingRig() {
  // Waits for all replies: they use members of this object.
  (void)Finish();
  if (store_ != nullptr) store_->CancelPushes();
}

absl::Status TrainingRig::Start() {
  RoutingTable routing;
  routing.epoch = Epoch(1);
  routing.server_of_shard = {ServerId(0)};
  routing.servers = {{{"here"}}};
  std::vector<uint64_t> elements;
  for (const v1::TableSpec& table : engine_->tables()) elements.push_back(ElementCount(table));
  ParameterClient::Options client;
  client.clock = clock_;
  client_ = std::make_unique<ParameterClient>(
      client, ShardMap(elements, options_.slice_bytes, kShardCount), routing,
      [this](ServerId, const ServerAddress&) {
        return std::make_unique<SgdEndpoint>(engine_->tables(), options_, clock_, &exchanges_);
      });
  ParameterStore::Options store;
  store.clock = clock_;
  store.client = client_.get();
  store.scheduler = &scheduler_;
  store.tables = engine_->tables();
  store.slice_bytes = options_.slice_bytes;
  store.shard_count = kShardCount;
  store.mirror = engine_->mirror();
  store.codecs.assign(store.tables.size(), options_.codecs);
  store.seed = options_.seed;
  store.has_program_state = options_.has_program_state;
  ASSIGN_OR_RETURN(store_, ParameterStore::Create(store));
  store_->PullAll(capstan::Step(0));
  return absl::OkStatus();
}

absl::StatusOr<double> TrainingRig::Step(const Dataset& dataset,
                                         const std::vector<uint32_t>& samples) {
  const capstan::Step step(steps_++);
  if (step == options_.auto_codecs_from) store_->UseAutoCodecs(step, AllTables());
  RETURN_IF_ERROR(engine_->LoadBatch(dataset, samples));
  RETURN_IF_ERROR(engine_->RunStep(step, *store_));
  ASSIGN_OR_RETURN(const BatchResult result, engine_->Result());
  return result.loss_sum / static_cast<double>(samples.size());
}

std::vector<TableId> TrainingRig::AllTables() const {
  std::vector<TableId> tables;
  for (uint32_t i = 0; i < engine_->tables().size(); ++i) tables.push_back(TableId(i));
  return tables;
}

absl::Status TrainingRig::Finish() {
  if (store_ == nullptr) return absl::OkStatus();
  const absl::Status answered = store_->WaitForAll();
  const absl::Status finished = engine_->Finish();
  return answered.ok() ? finished : answered;
}

std::vector<float> TrainingRig::Values() const {
  store_->PullAllExactly(capstan::Step(steps_));
  CHECK_EQ(store_->WaitForAll(), absl::OkStatus());
  std::vector<float> all;
  for (const absl::Span<const float> table : store_->values()) {
    all.insert(all.end(), table.begin(), table.end());
  }
  return all;
}

}  // namespace capstan
