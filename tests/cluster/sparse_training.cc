#include "tests/cluster/sparse_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "worker/program/program_engine.h"

namespace capstan {
namespace {

constexpr absl::Duration kForever = absl::InfiniteDuration();
constexpr TableId kItems(0);
constexpr TableId kWeights(1);
constexpr size_t kDims[] = {3, 1};
constexpr uint64_t kKeys = 120;
constexpr size_t kBatch = 64;
constexpr float kRate = 0.5f;
constexpr double kAlpha = 0.8;
constexpr double kL1 = 0.01;

// Any 64-bit number can be a key.
uint64_t KeyOf(uint64_t i) { return i % 2 == 0 ? i : ~uint64_t{0} - i * i; }

float TargetOf(uint64_t key, size_t element) {
  return static_cast<float>(1 + (key % 7) + 2 * element) / 5;
}

// The keys of a worker's step, some of them twice.
std::vector<uint64_t> KeysOf(uint32_t rank, Step step) {
  Random random(1000 * step.value() + rank);
  std::vector<uint64_t> keys(kBatch);
  for (uint64_t& key : keys) key = KeyOf(random.UniformInt(kKeys));
  return keys;
}

std::vector<uint64_t> AllKeys() {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(KeyOf(i));
  return keys;
}

std::vector<float> GradientsOf(absl::Span<const uint64_t> keys, absl::Span<const float> rows,
                               size_t dim) {
  std::vector<float> gradients(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    gradients[i] = rows[i] - TargetOf(keys[i / dim], i % dim);
  }
  return gradients;
}

std::vector<v1::TableSpec> Tables() {
  std::vector<v1::TableSpec> tables(3);
  tables[kItems.value()].set_name("items");
  tables[kItems.value()].mutable_sparse()->set_dim(kDims[0]);
  tables[kItems.value()].mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  tables[kItems.value()].mutable_optimizer()->set_learning_rate(kRate);
  tables[kWeights.value()].set_name("weights");
  tables[kWeights.value()].mutable_sparse()->set_dim(kDims[1]);
  v1::OptimizerSpec& ftrl = *tables[kWeights.value()].mutable_optimizer();
  ftrl.set_type(v1::OptimizerSpec::FTRL);
  ftrl.set_learning_rate(kAlpha);
  ftrl.set_l1(kL1);
  tables[2].set_name("bias");
  tables[2].add_shape(5);
  tables[2].set_layer(1);
  return tables;
}

absl::StatusOr<std::vector<float>> Pull(ProgramEngine& engine, TableId table,
                                        const std::vector<uint64_t>& keys) {
  RETURN_IF_ERROR(engine.rows().Pull(table, keys, kForever));
  std::vector<float> rows(keys.size() * kDims[table.value()]);
  RETURN_IF_ERROR(engine.rows().Read(table, absl::MakeSpan(rows), kForever));
  return rows;
}

absl::Status TrainStep(ProgramEngine& engine, uint32_t rank, Step step) {
  // In BSP the first worker's counts, in all shards.
  RETURN_IF_ERROR(engine.SetLearningRate(kItems, rank == 0 ? kRate : kRate / 2));
  int pushed = 0;
  const std::vector<uint64_t> keys = KeysOf(rank, step);
  for (const TableId table : {kItems, kWeights}) {
    ASSIGN_OR_RETURN(const std::vector<float> rows, Pull(engine, table, keys));
    const std::vector<float> gradients = GradientsOf(keys, rows, kDims[table.value()]);
    // The first table knows the next step's keys, and the second one does not.
    const std::vector<uint64_t> next =
        table == kItems ? KeysOf(rank, step + 1) : std::vector<uint64_t>();
    // Now and then a worker has no gradient.
    if ((step.value() + rank + table.value()) % 5 == 0) continue;
    RETURN_IF_ERROR(engine.rows().Push(table, keys, gradients, next, kForever));
    ++pushed;
  }
  // After a push, a pull is of the next step. It waits for the pushes of others, so all tables of
  // this worker have been pushed before.
  if (pushed == 2 && step.value() % 3 == 0) {
    RETURN_IF_ERROR(engine.rows().Pull(kWeights, KeysOf(rank, step + 1), kForever));
  }
  RETURN_IF_ERROR(engine.Wait(/*layer=*/1, kForever));
  const absl::Span<float> bias = engine.gradients()[2];
  std::fill(bias.begin(), bias.end(), 1.0f);
  RETURN_IF_ERROR(engine.Push(/*layer=*/1, kForever));
  return engine.EndStep(/*loss=*/0, kBatch, kForever);
}

// Sets `rows` if the worker evaluates.
absl::Status Train(ProgramEngine& engine, uint32_t rank, int64_t steps, std::vector<float>& rows) {
  RETURN_IF_ERROR(engine.steps().AwaitStart(kForever));
  while (engine.steps().current() < Step(steps))
    RETURN_IF_ERROR(TrainStep(engine, rank, engine.steps().current()));
  RETURN_IF_ERROR(engine.steps().End());
  ASSIGN_OR_RETURN(const bool evaluates, engine.steps().AwaitEvaluation(kForever));
  if (!evaluates) return absl::OkStatus();
  for (const TableId table : {kItems, kWeights}) {
    ASSIGN_OR_RETURN(const std::vector<float> of_table, Pull(engine, table, AllKeys()));
    rows.insert(rows.end(), of_table.begin(), of_table.end());
  }
  return engine.steps().Report({}, kForever);
}

// A row, by the formulas.
struct Row {
  std::vector<float> values, z, n;
};

void Apply(TableId table, const std::vector<float>& gradient, Row& row) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i];
    if (table == kItems) {
      row.values[i] -= kRate * g;
      continue;
    }
    const double n = row.n[i] + static_cast<double>(g) * g;
    const double sigma = (std::sqrt(n) - std::sqrt(row.n[i])) / kAlpha;
    row.z[i] += static_cast<float>(g - sigma * row.values[i]);
    row.n[i] = static_cast<float>(n);
    const double shrunk = std::max(std::abs(row.z[i]) - kL1, 0.0);
    row.values[i] =
        static_cast<float>(-std::copysign(shrunk, row.z[i]) / ((1 + std::sqrt(n)) / kAlpha));
  }
}

class SerialTable {
 public:
  explicit SerialTable(TableId table) : table_(table), dim_(kDims[table.value()]) {}

  std::vector<float> Rows(const std::vector<uint64_t>& keys) {
    std::vector<float> rows;
    for (const uint64_t key : keys) {
      const Row& row = RowOf(key);
      rows.insert(rows.end(), row.values.begin(), row.values.end());
    }
    return rows;
  }
  void Add(const std::vector<uint64_t>& keys, const std::vector<float>& gradients) {
    std::map<uint64_t, std::vector<float>> of_worker;
    for (size_t i = 0; i < gradients.size(); ++i) {
      std::vector<float>& sum = of_worker[keys[i / dim_]];
      sum.resize(dim_);
      sum[i % dim_] += gradients[i];
    }
    for (const auto& [key, sum] : of_worker) {
      sums_[key].resize(dim_);
      for (size_t i = 0; i < dim_; ++i) sums_[key][i] += sum[i];
    }
  }
  void EndStep(uint32_t num_workers) {
    for (auto& [key, sum] : sums_) {
      for (float& element : sum) element /= static_cast<float>(num_workers);
      Apply(table_, sum, RowOf(key));
    }
    sums_.clear();
  }

 private:
  Row& RowOf(uint64_t key) {
    Row& row = rows_[key];
    for (std::vector<float>* part : {&row.values, &row.z, &row.n}) part->resize(dim_);
    return row;
  }

  const TableId table_;
  const size_t dim_;
  std::map<uint64_t, Row> rows_;
  std::map<uint64_t, std::vector<float>> sums_;  // of the open step
};

void ExpectSameRows(const std::vector<float>& rows, const std::vector<float>& expected) {
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_NEAR(rows[i], expected[i], 1e-4) << i;
}

}  // namespace

v1::JobSpec SparseJob(v1::ConsistencySpec::Mode mode, uint32_t num_workers, uint32_t num_servers) {
  v1::JobSpec job;
  job.mutable_model()->set_type(v1::ModelSpec::PROGRAM);
  job.mutable_training()->set_steps(40);
  job.mutable_consistency()->set_mode(mode);
  if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(2);
  job.mutable_cluster()->set_num_workers(num_workers);
  job.mutable_cluster()->set_num_servers(num_servers);
  job.mutable_cluster()->set_shard_count(8);
  job.mutable_membership()->set_heartbeat_seconds(0.05);
  return job;
}

SparseResult TrainSparse(const v1::JobSpec& job, const TransportFactory& make_transport,
                         const ClusterFaults& faults) {
  RealClock clock;
  const auto transport = make_transport(&clock);
  const uint32_t num_workers = job.cluster().num_workers();
  const auto steps = static_cast<int64_t>(job.training().steps());
  SparseResult result;
  std::vector<std::thread> programs(num_workers);
  std::vector<std::shared_ptr<ProgramEngine>> engines(num_workers);
  std::vector<absl::Status> statuses(num_workers);
  Mutex mu;
  result.cluster =
      RunRankedCluster(job, *transport, clock, faults, [&](uint32_t rank) -> JobPreparer {
        return [&, rank](const v1::JobSpec&, Clock* of_worker) {
          ProgramEngine::Options options;
          options.clock = of_worker;
          options.tables = Tables();
          options.initial.resize(options.tables.size());
          options.steps = steps;
          const auto engine = std::make_shared<ProgramEngine>(options);
          engines[rank] = engine;
          programs[rank] = std::thread([&, engine, rank] {
            std::vector<float> rows;
            statuses[rank] = Train(*engine, rank, steps, rows);
            MutexLock lock(&mu);
            if (!rows.empty()) result.rows = std::move(rows);
          });
          JobSetup setup;
          setup.engine = engine;
          setup.steps = steps;
          setup.evaluate = [engine](Step end, ParameterStore& store,
                                    v1::ReportResultRequest& report) {
            return engine->Evaluate(end, store, report);
          };
          return setup;
        };
      });
  for (uint32_t rank = 0; rank < num_workers; ++rank) {
    if (engines[rank] == nullptr) continue;
    engines[rank]->steps().SetOutcome(result.cluster.workers[rank]);
    programs[rank].join();
    EXPECT_TRUE(statuses[rank].ok()) << "rank " << rank << ": " << statuses[rank];
  }
  EXPECT_TRUE(result.cluster.outcome.status.ok()) << result.cluster.outcome.status;
  return result;
}

double SparseError(const std::vector<float>& rows) {
  double sum = 0;
  size_t at = 0;
  for (const size_t dim : kDims) {
    for (const uint64_t key : AllKeys()) {
      for (size_t i = 0; i < dim; ++i) sum += std::abs(rows.at(at++) - TargetOf(key, i));
    }
  }
  return sum / static_cast<double>(at);
}

std::vector<float> TrainSparseSerially(const v1::JobSpec& job) {
  SerialTable tables[] = {SerialTable(kItems), SerialTable(kWeights)};
  const uint32_t num_workers = job.cluster().num_workers();
  for (Step step(0); step < Step(static_cast<int64_t>(job.training().steps())); step = step + 1) {
    for (const TableId table : {kItems, kWeights}) {
      for (uint32_t rank = 0; rank < num_workers; ++rank) {
        const std::vector<uint64_t> keys = KeysOf(rank, step);
        const std::vector<float> rows = tables[table.value()].Rows(keys);
        if ((step.value() + rank + table.value()) % 5 == 0) continue;
        tables[table.value()].Add(keys, GradientsOf(keys, rows, kDims[table.value()]));
      }
      tables[table.value()].EndStep(num_workers);
    }
  }
  std::vector<float> all = tables[0].Rows(AllKeys());
  const std::vector<float> weights = tables[1].Rows(AllKeys());
  all.insert(all.end(), weights.begin(), weights.end());
  return all;
}

void ExpectSparseTablesTrain(const TransportFactory& make_transport) {
  std::optional<std::vector<float>> bits;
  for (const uint32_t num_servers : {1, 2, 3}) {
    v1::JobSpec job = SparseJob(v1::ConsistencySpec::BSP, /*num_workers=*/3, num_servers);
    if (num_servers == 3) job.mutable_cluster()->set_shard_count(64);
    ClusterFaults faults;
    if (num_servers == 2) faults.drop = faults.duplicate = 0.02;
    const SparseResult result = TrainSparse(job, make_transport, faults);
    if (!bits.has_value()) {
      bits = result.rows;
      ExpectSameRows(*bits, TrainSparseSerially(job));
      EXPECT_LT(SparseError(*bits), 0.1);
    }
    EXPECT_EQ(result.rows, *bits) << num_servers << " servers";
  }
  for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    ClusterFaults faults;
    faults.drop = faults.duplicate = 0.02;
    const v1::JobSpec job = SparseJob(mode, /*num_workers=*/4, /*num_servers=*/2);
    const SparseResult result = TrainSparse(job, make_transport, faults);
    EXPECT_LT(SparseError(result.rows), 0.2) << v1::ConsistencySpec::Mode_Name(mode);
  }
}

}  // namespace capstan
