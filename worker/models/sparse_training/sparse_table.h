#ifndef WORKER_MODELS_SPARSE_TRAINING_SPARSE_TABLE_H_
#define WORKER_MODELS_SPARSE_TRAINING_SPARSE_TABLE_H_

#include <cstdint>
#include <string>

#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

namespace capstan {

// A sparse table of layer 0 with rows of `dim` values.
inline v1::TableSpec SparseTableOf(const std::string& name, uint32_t dim, double initial_stddev,
                                   const v1::RowsSpec& rows) {
  v1::TableSpec table;
  table.set_name(name);
  table.set_initial_stddev(initial_stddev);
  v1::SparseTable& sparse = *table.mutable_sparse();
  sparse.set_dim(dim);
  sparse.set_admitting_push(rows.admitting_push());
  sparse.set_max_idle_steps(rows.max_idle_steps());
  sparse.set_max_rows(rows.max_rows());
  return table;
}

}  // namespace capstan

#endif  // WORKER_MODELS_SPARSE_TRAINING_SPARSE_TABLE_H_
