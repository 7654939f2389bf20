#ifndef KERNELS_OPTIMIZERS_H_
#define KERNELS_OPTIMIZERS_H_

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/host_device.h"

// Optimizers. Each is a rule: the constants of one application, and the update of one element. It
// keeps kStateCount arrays beside the values, all zero at first.
//
// In the formulas g is an element of the gradient, w is one of the values, and t counts the
// applications from 1. The weight decay is L2: h = g + weight_decay * w takes the gradient's place.
// Only AdamW has another one.
namespace capstan {

class CpuStream;
class CudaStream;

// Stochastic gradient descent: w -= learning_rate * h.
// Robbins and Monro, "A Stochastic Approximation Method", 1951.
struct SgdRule {
  static constexpr char kName[] = "SGD";
  static constexpr int kStateCount = 0;

  float learning_rate = 0;
  float weight_decay = 0;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value) const {
    value -= learning_rate * (gradient + weight_decay * value);
  }
};

// Heavy ball: v = momentum * v + h; w -= learning_rate * v.
// Polyak, "Some methods of speeding up the convergence of iteration methods", 1964, with the
// learning rate outside v, as is usual in deep learning.
struct MomentumRule {
  static constexpr char kName[] = "momentum";
  static constexpr int kStateCount = 1;

  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& velocity) const {
    velocity = momentum * velocity + (gradient + weight_decay * value);
    value -= learning_rate * velocity;
  }
};

// Nesterov's accelerated gradient: v = momentum * v + h; w -= learning_rate * (h + momentum * v).
// Nesterov, 1983, in the form that needs the gradient at w only: "simplified Nesterov momentum" of
// Bengio et al., "Advances in Optimizing Recurrent Networks", ICASSP 2013.
struct NesterovRule {
  static constexpr char kName[] = "Nesterov";
  static constexpr int kStateCount = 1;

  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& velocity) const {
    const float decayed = gradient + weight_decay * value;
    velocity = momentum * velocity + decayed;
    value -= learning_rate * (decayed + momentum * velocity);
  }
};

// Adagrad: a += h^2; w -= learning_rate * h / (sqrt(a) + epsilon).
// Duchi, Hazan and Singer, "Adaptive Subgradient Methods", JMLR 2011, with diagonal matrices.
struct AdagradRule {
  static constexpr char kName[] = "Adagrad";
  static constexpr int kStateCount = 1;

  float learning_rate = 0;
  float epsilon = 0;
  float weight_decay = 0;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& square_sum) const {
    const float decayed = gradient + weight_decay * value;
    square_sum += decayed * decayed;
    value -= learning_rate * decayed / (std::sqrt(square_sum) + epsilon);
  }
};

// Adam: m = beta1 * m + (1 - beta1) * h; v = beta2 * v + (1 - beta2) * h^2;
// w -= learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
// Kingma and Ba, "Adam", ICLR 2015, algorithm 1.
struct AdamRule {
  static constexpr char kName[] = "Adam";
  static constexpr int kStateCount = 2;

  float step = 0;         // learning_rate / (1 - beta1^t)
  float root_scale = 0;   // 1 / sqrt(1 - beta2^t)
  float keep_first = 0;   // beta1
  float add_first = 0;    // 1 - beta1
  float keep_second = 0;  // beta2
  float add_second = 0;   // 1 - beta2
  float epsilon = 0;
  float weight_decay = 0;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& first,
                                      float& second) const {
    const float decayed = gradient + weight_decay * value;
    first = keep_first * first + add_first * decayed;
    second = keep_second * second + add_second * (decayed * decayed);
    value -= step * first / (std::sqrt(second) * root_scale + epsilon);
  }
};

// Adam with the weight decay decoupled from the gradient: m and v as Adam's, with g for h;
// u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon);
// w -= learning_rate * (u + weight_decay * w).
// Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2, its decay
// multiplied by the learning rate, as is usual.
struct AdamWRule {
  static constexpr char kName[] = "AdamW";
  static constexpr int kStateCount = 2;

  float step = 0;         // learning_rate / (1 - beta1^t)
  float root_scale = 0;   // 1 / sqrt(1 - beta2^t)
  float keep_first = 0;   // beta1
  float add_first = 0;    // 1 - beta1
  float keep_second = 0;  // beta2
  float add_second = 0;   // 1 - beta2
  float epsilon = 0;
  float decay = 0;  // learning_rate * weight_decay

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& first,
                                      float& second) const {
    first = keep_first * first + add_first * gradient;
    second = keep_second * second + add_second * (gradient * gradient);
    value -= step * first / (std::sqrt(second) * root_scale + epsilon) + decay * value;
  }
};

// Applies the rule to each of `n` elements, in place. `arrays` are the values and then the state.
// Every device does the same operations in the same order and has the same bits.
// Instantiated for the rules above only.
template <typename Rule>
absl::Status ApplyRule(const Rule& rule, int64_t n, const float* gradient,
                       float* const (&arrays)[1 + Rule::kStateCount], CpuStream& stream);
template <typename Rule>
absl::Status ApplyRule(const Rule& rule, int64_t n, const float* gradient,
                       float* const (&arrays)[1 + Rule::kStateCount], CudaStream& stream);

}  // namespace capstan

#endif  // KERNELS_OPTIMIZERS_H_
