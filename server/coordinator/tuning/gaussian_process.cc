#include "server/coordinator/tuning/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace capstan {
namespace {

constexpr double kPi = 3.14159265358979323846;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

GaussianProcess::GaussianProcess(const Options& options, std::vector<TuningPoint> points,
                                 const std::vector<double>& values)
    : options_(options), points_(std::move(points)), factor_(points_.size() * points_.size()) {
  const size_t n = points_.size();
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column <= row; ++column) {
      At(row, column) = Kernel(points_[row], points_[column]);
    }
    At(row, row) += options_.noise_variance;
  }
  Factorize();
  weights_ = SolveUpper(SolveLower(values));
  double log_determinant = 0;
  for (size_t i = 0; i < n; ++i) log_determinant += 2 * std::log(At(i, i));
  log_marginal_likelihood_ =
      -0.5 * (Dot(values, weights_) + log_determinant + static_cast<double>(n) * std::log(2 * kPi));
}

double GaussianProcess::Kernel(const TuningPoint& a, const TuningPoint& b) const {
  const double distance = std::hypot(a[0] - b[0], a[1] - b[1]);
  const double r = std::sqrt(5.0) * distance / options_.length_scale;
  return (1 + r + r * r / 3) * std::exp(-r);
}

void GaussianProcess::Factorize() {
  for (size_t column = 0; column < points_.size(); ++column) {
    for (size_t row = column; row < points_.size(); ++row) {
      double rest = At(row, column);
      for (size_t k = 0; k < column; ++k) rest -= At(row, k) * At(column, k);
      // The noise keeps the covariance positive definite.
      At(row, column) = row == column ? std::sqrt(rest) : rest / At(column, column);
    }
  }
}

std::vector<double> GaussianProcess::SolveLower(std::vector<double> b) const {
  for (size_t row = 0; row < b.size(); ++row) {
    for (size_t k = 0; k < row; ++k) b[row] -= At(row, k) * b[k];
    b[row] /= At(row, row);
  }
  return b;
}

std::vector<double> GaussianProcess::SolveUpper(std::vector<double> b) const {
  for (size_t row = b.size(); row-- > 0;) {
    for (size_t k = row + 1; k < b.size(); ++k) b[row] -= At(k, row) * b[k];
    b[row] /= At(row, row);
  }
  return b;
}

GaussianProcess::Prediction GaussianProcess::Predict(const TuningPoint& point) const {
  std::vector<double> covariances;
  for (const TuningPoint& known : points_) covariances.push_back(Kernel(point, known));
  const std::vector<double> explained = SolveLower(covariances);
  return {Dot(covariances, weights_), std::max(0.0, 1 - Dot(explained, explained))};
}

GaussianProcess FitGaussianProcess(const std::vector<TuningPoint>& points,
                                   const std::vector<double>& values) {
  std::optional<GaussianProcess> best;
  for (const double length_scale : {1.0, 2.0, 4.0, 8.0}) {
    for (const double noise_variance : {0.003, 0.03, 0.3}) {
      GaussianProcess process({length_scale, noise_variance}, points, values);
      if (best && process.log_marginal_likelihood() <= best->log_marginal_likelihood()) continue;
      best.emplace(std::move(process));
    }
  }
  return *std::move(best);
}

}  // namespace capstan
