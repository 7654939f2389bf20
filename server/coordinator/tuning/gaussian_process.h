#ifndef SERVER_COORDINATOR_TUNING_GAUSSIAN_PROCESS_H_
#define SERVER_COORDINATOR_TUNING_GAUSSIAN_PROCESS_H_

#include <array>
#include <cstddef>
#include <vector>

namespace capstan {

using TuningPoint = std::array<double, 2>;

// The posterior of a function of two variables, given noisy values at some points: zero mean, unit
// variance, and a Matern kernel of smoothness 5/2.
// Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1.
class GaussianProcess {
 public:
  struct Options {
    double length_scale = 1;      // distance over which the function changes; above 0
    double noise_variance = 0.1;  // of each value; above 0
  };
  struct Prediction {
    double mean = 0;
    double variance = 0;  // of the function, without the noise
  };

  // As many values as points, at least one.
  GaussianProcess(const Options& options, std::vector<TuningPoint> points,
                  const std::vector<double>& values);

  Prediction Predict(const TuningPoint& point) const;
  // How well the options explain the values.
  double log_marginal_likelihood() const { return log_marginal_likelihood_; }

 private:
  double Kernel(const TuningPoint& a, const TuningPoint& b) const;
  // Makes the lower triangle of a covariance its Cholesky factor.
  void Factorize();
  // Solves factor x = b, and factor^T x = b.
  std::vector<double> SolveLower(std::vector<double> b) const;
  std::vector<double> SolveUpper(std::vector<double> b) const;
  double& At(size_t row, size_t column) { return factor_[row * points_.size() + column]; }
  double At(size_t row, size_t column) const { return factor_[row * points_.size() + column]; }

  const Options options_;
  const std::vector<TuningPoint> points_;
  std::vector<double> factor_;   // of the values' covariance; lower triangle, row by row
  std::vector<double> weights_;  // covariance^-1 values
  double log_marginal_likelihood_ = 0;
};

// The process whose options, of a few, explain the values best. Distances are octaves, values have
// variance 1.
GaussianProcess FitGaussianProcess(const std::vector<TuningPoint>& points,
                                   const std::vector<double>& values);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_TUNING_GAUSSIAN_PROCESS_H_
