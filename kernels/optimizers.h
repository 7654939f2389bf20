#ifndef KERNELS_OPTIMIZERS_H_
#define KERNELS_OPTIMIZERS_H_

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/host_device.h"

// Optimizers. Each is a rule: the constants of one application, and the update of one element. It
// keeps kStateCount arrays beside the values, all zero at first.
//
// In the formulas g is an element of the gradient times `sign`, which is -1 to maximize; w is one
// of the values, and t counts the applications from 1. The weight decay is L2: h = g + weight_decay
// * w takes the gradient's place. Only AdamW and Lion have another one.
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
  float sign = 1;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value) const {
    value -= learning_rate * (sign * gradient + weight_decay * value);
  }
};

// Heavy ball: v = momentum * v + add * h; w -= learning_rate * v.
// Polyak, "Some methods of speeding up the convergence of iteration methods", 1964, with the
// learning rate outside v, as is usual in deep learning.
struct MomentumRule {
  static constexpr char kName[] = "momentum";
  static constexpr int kStateCount = 1;

  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  float add = 1;  // 1 - dampening; 1 in the first application
  float sign = 1;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& velocity) const {
    velocity = momentum * velocity + add * (sign * gradient + weight_decay * value);
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
  float sign = 1;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& velocity) const {
    const float decayed = sign * gradient + weight_decay * value;
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
  float sign = 1;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& square_sum) const {
    const float decayed = sign * gradient + weight_decay * value;
    square_sum += decayed * decayed;
    value -= learning_rate * decayed / (std::sqrt(square_sum) + epsilon);
  }
};

// Constants of Adam and its kin.
struct Moments {
  float step = 0;         // learning_rate / (1 - beta1^t)
  float root_scale = 0;   // 1 / sqrt(1 - beta2^t)
  float keep_first = 0;   // beta1
  float add_first = 0;    // 1 - beta1
  float keep_second = 0;  // beta2
  float add_second = 0;   // 1 - beta2
  float epsilon = 0;
  float sign = 1;

  CAPSTAN_HOST_DEVICE float First(float first, float h) const {
    return keep_first * first + add_first * h;
  }
  CAPSTAN_HOST_DEVICE float Second(float second, float h) const {
    return keep_second * second + add_second * (h * h);
  }
  CAPSTAN_HOST_DEVICE float Change(float first, float second) const {
    return step * first / (std::sqrt(second) * root_scale + epsilon);
  }
};

// Adam: m = beta1 * m + (1 - beta1) * h; v = beta2 * v + (1 - beta2) * h^2;
// w -= learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
// Kingma and Ba, "Adam", ICLR 2015, algorithm 1.
struct AdamRule {
  static constexpr char kName[] = "Adam";
  static constexpr int kStateCount = 2;

  Moments moments;
  float weight_decay = 0;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& first,
                                      float& second) const {
    const float h = moments.sign * gradient + weight_decay * value;
    first = moments.First(first, h);
    second = moments.Second(second, h);
    value -= moments.Change(first, second);
  }
};

// Adam with the largest v so far in the place of v: x = max(x, v).
// Reddi, Kale and Kumar, "On the Convergence of Adam and Beyond", ICLR 2018, algorithm 2, with
// Adam's bias correction, as is usual.
struct AmsgradRule {
  static constexpr char kName[] = "AMSGrad";
  static constexpr int kStateCount = 3;

  Moments moments;
  float weight_decay = 0;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& first, float& second,
                                      float& largest) const {
    const float h = moments.sign * gradient + weight_decay * value;
    first = moments.First(first, h);
    second = moments.Second(second, h);
    largest = largest > second ? largest : second;
    value -= moments.Change(first, largest);
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

  Moments moments;
  float decay = 0;  // learning_rate * weight_decay

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& first,
                                      float& second) const {
    const float h = moments.sign * gradient;
    first = moments.First(first, h);
    second = moments.Second(second, h);
    value -= moments.Change(first, second) + decay * value;
  }
};

// AMSGrad with AdamW's weight decay.
struct AmsgradWRule {
  static constexpr char kName[] = "AMSGradW";
  static constexpr int kStateCount = 3;

  Moments moments;
  float decay = 0;  // learning_rate * weight_decay

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& first, float& second,
                                      float& largest) const {
    const float h = moments.sign * gradient;
    first = moments.First(first, h);
    second = moments.Second(second, h);
    largest = largest > second ? largest : second;
    value -= moments.Change(first, largest) + decay * value;
  }
};

// RMSprop: a = alpha * a + (1 - alpha) * h^2; u = h / (sqrt(a) + epsilon); w -= learning_rate * u.
// Centered: b = alpha * b + (1 - alpha) * h, and a - b^2, or 0 if rounding makes it negative, takes
// the place of a in u. With momentum: v = momentum * v + u, and w -= learning_rate * v.
// The state is a, then b if it is centered, then v with momentum.
// Tieleman and Hinton, "Lecture 6.5", COURSERA, 2012; centered: Graves, "Generating Sequences With
// Recurrent Neural Networks", 2013, equations 38 to 41.
template <bool kIsCentered, bool kHasMomentum>
struct RmspropRule {
  static constexpr char kName[] = "RMSprop";
  static constexpr int kStateCount = 1 + kIsCentered + kHasMomentum;

  float learning_rate = 0;
  float keep = 0;  // alpha
  float add = 0;   // 1 - alpha
  float momentum = 0;
  float epsilon = 0;
  float weight_decay = 0;
  float sign = 1;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& square) const {
    Update(gradient, value, square, /*mean=*/square, /*velocity=*/square);
  }
  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& square,
                                      float& mean_or_velocity) const {
    Update(gradient, value, square, mean_or_velocity, mean_or_velocity);
  }
  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& square, float& mean,
                                      float& velocity) const {
    Update(gradient, value, square, mean, velocity);
  }

 private:
  // Touches only what the rule has.
  CAPSTAN_HOST_DEVICE void Update(float gradient, float& value, float& square, float& mean,
                                  float& velocity) const {
    const float decayed = sign * gradient + weight_decay * value;
    square = keep * square + add * (decayed * decayed);
    float variance = square;
    if constexpr (kIsCentered) {
      mean = keep * mean + add * decayed;
      variance -= mean * mean;
      if (variance < 0) variance = 0;
    }
    float change = decayed / (std::sqrt(variance) + epsilon);
    if constexpr (kHasMomentum) change = velocity = momentum * velocity + change;
    value -= learning_rate * change;
  }
};

// Lion: c = beta1 * m + (1 - beta1) * g; w -= learning_rate * (sign(c) + weight_decay * w);
// m = beta2 * m + (1 - beta2) * g. sign(0) is 0.
// Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023, algorithm 2.
struct LionRule {
  static constexpr char kName[] = "Lion";
  static constexpr int kStateCount = 1;

  float learning_rate = 0;
  float mix = 0;      // beta1
  float mix_add = 0;  // 1 - beta1
  float keep = 0;     // beta2
  float add = 0;      // 1 - beta2
  float decay = 0;    // learning_rate * weight_decay
  float sign = 1;

  CAPSTAN_HOST_DEVICE void operator()(float gradient, float& value, float& mean) const {
    const float signed_gradient = sign * gradient;
    const float mixed = mix * mean + mix_add * signed_gradient;
    const float direction = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : mixed;  // NaN stays
    value -= learning_rate * direction + decay * value;
    mean = keep * mean + add * signed_gradient;
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
