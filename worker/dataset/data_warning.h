#ifndef WORKER_DATASET_DATA_WARNING_H_
#define WORKER_DATASET_DATA_WARNING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/job.pb.h"
#include "worker/dataset/dataset.h"

namespace capstan {

// The label that all samples of both sides have; none if there are several.
std::optional<int32_t> OnlyLabel(const DataSplit& split);

// Where the labels lie, as in "column 3, from 0", and what to do if they are not the right ones.
// `data` has the features beside them.
std::string LabelsText(const v1::DataSpec& spec, const Dataset& data);
std::string LabelRemedy(const v1::DataSpec& spec);

// What is probably not as the user meant it, with the column and the remedy: labels of one kind,
// labels that leave most classes empty or count the samples, and features that a common scale makes
// nearly 0. `split` has its classes, and is not scaled. Empty: nothing, or the data are built in.
std::string DataWarning(const v1::DataSpec& spec, const DataSplit& split);

}  // namespace capstan

#endif  // WORKER_DATASET_DATA_WARNING_H_
