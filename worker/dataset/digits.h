#ifndef WORKER_DATASET_DIGITS_H_
#define WORKER_DATASET_DIGITS_H_

#include "worker/dataset/dataset.h"

namespace capstan {

// The data set that is built into the program: 1,797 handwritten digits of 8x8 pixels, 0 ... 16.
// README.md names its source and licence.
Dataset MakeDigits();

}  // namespace capstan

#endif  // WORKER_DATASET_DIGITS_H_
