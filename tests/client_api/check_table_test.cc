// The C interface refuses the tables that the coordinator would refuse, and no others.
#include "worker/program/check_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "common/job/job_properties.h"
#include "common/routing/table_check.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/optimizer/table_optimizers.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

constexpr Spec::Type kTypes[] = {Spec::TYPE_UNSPECIFIED,
                                 Spec::SGD,
                                 Spec::MOMENTUM,
                                 Spec::NESTEROV,
                                 Spec::ADAGRAD,
                                 Spec::ADAM,
                                 Spec::ADAMW,
                                 Spec::RMSPROP,
                                 Spec::LION,
                                 Spec::ROW_ADAGRAD,
                                 Spec::FTRL};

v1::TableSpec DenseTable() {
  v1::TableSpec table;
  table.set_name("weights");
  table.add_shape(3);
  return table;
}

v1::TableSpec SparseTable() {
  v1::TableSpec table;
  table.set_name("items");
  table.mutable_sparse()->set_dim(2);
  return table;
}

bool DoesCoordinatorAccept(const v1::TableSpec& table, const v1::JobSpec& job) {
  TableSpecs tables;
  *tables.Add() = table;
  return CheckTables(tables, SliceBytes(job.scheduler())).ok() &&
         CheckTableOptimizers(job, tables).ok();
}

void ExpectTheSame(const v1::TableSpec& table, const v1::JobSpec& job = {}) {
  const absl::Status checked = CheckTable(table, job);
  EXPECT_EQ(checked.ok(), DoesCoordinatorAccept(table, job))
      << checked << ", of " << table.ShortDebugString();
  if (checked.ok()) return;
  EXPECT_TRUE(absl::IsInvalidArgument(checked)) << checked;
  EXPECT_TRUE(absl::StrContains(checked.message(), table.name())) << checked;
}

TEST(CheckTableTest, EveryFieldOfAnOptimizerHasTheServersRange) {
  const std::function<void(Spec&, double)> setters[] = {
      [](Spec& spec, double value) { spec.set_learning_rate(value); },
      [](Spec& spec, double value) { spec.set_momentum(value); },
      [](Spec& spec, double value) { spec.set_beta1(value); },
      [](Spec& spec, double value) { spec.set_beta2(value); },
      [](Spec& spec, double value) { spec.set_epsilon(value); },
      [](Spec& spec, double value) { spec.set_weight_decay(value); },
      [](Spec& spec, double value) { spec.set_beta(value); },
      [](Spec& spec, double value) { spec.set_l1(value); },
      [](Spec& spec, double value) { spec.set_l2(value); },
      [](Spec& spec, double value) { spec.set_alpha(value); },
      [](Spec& spec, double value) { spec.set_dampening(value); },
      [](Spec& spec, double value) { spec.set_maximize(value > 0); },
      [](Spec& spec, double value) { spec.set_amsgrad(value > 0); },
      [](Spec& spec, double value) { spec.set_centered(value > 0); }};
  const double values[] = {-1,  0,        1e-300,   1.17e-38, 1.2e-38,     1e-10,     1e-9,
                           0.5, 1 - 1e-6, 1 - 1e-7, 1 - 4e-8, 1 - 0x1p-25, 1 - 1e-9,  1,
                           1.5, 1e9,      1.1e9,    1e300,    INFINITY,    -INFINITY, std::nan("")};
  for (const v1::TableSpec& plain : {DenseTable(), SparseTable()}) {
    for (const Spec::Type type : kTypes) {
      for (const auto& set : setters) {
        for (const double value : values) {
          v1::TableSpec table = plain;
          table.mutable_optimizer()->set_type(type);
          set(*table.mutable_optimizer(), value);
          ExpectTheSame(table);
        }
      }
    }
  }
}

TEST(CheckTableTest, ATableWithoutAnOptimizerMustFitTheJobs) {
  for (const Spec::Type type : kTypes) {
    v1::JobSpec job;
    job.mutable_optimizer()->set_type(type);
    ExpectTheSame(DenseTable(), job);
    ExpectTheSame(SparseTable(), job);
  }
}

TEST(CheckTableTest, InitialValuesAndLimitsAreThoseOfTheCoordinator) {
  for (const double stddev : {-1.0, 0.0, 0.1, double{INFINITY}, std::nan("")}) {
    v1::TableSpec table = DenseTable();
    table.set_initial_stddev(stddev);
    ExpectTheSame(table);
  }
  v1::JobSpec adagrad;
  adagrad.mutable_optimizer()->set_type(Spec::ADAGRAD);
  ExpectTheSame(SparseTable(), adagrad);
  for (const uint32_t dim : {0, 1, 1024, 1025}) {
    v1::TableSpec table = SparseTable();
    table.mutable_sparse()->set_dim(dim);
    ExpectTheSame(table, adagrad);
  }
  v1::TableSpec table = SparseTable();
  table.mutable_sparse()->set_admitting_push(256);
  ExpectTheSame(table, adagrad);
}

TEST(CheckTableTest, RowsOfFtrlBeginAt0) {
  v1::TableSpec table = SparseTable();
  table.mutable_optimizer()->set_type(Spec::FTRL);
  EXPECT_TRUE(CheckTable(table, {}).ok());
  table.set_initial_stddev(0.1);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckTable(table, {})));
}

}  // namespace
}  // namespace capstan
