#include "server/coordinator/tuning/gaussian_process.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

constexpr double kPi = 3.14159265358979323846;

using Matrix = std::vector<std::vector<double>>;

// The kernel as its definition reads.
double Matern(const TuningPoint& a, const TuningPoint& b, double length) {
  const double d = std::sqrt(std::pow(a[0] - b[0], 2) + std::pow(a[1] - b[1], 2));
  return (1 + std::sqrt(5) * d / length + 5 * d * d / (3 * length * length)) *
         std::exp(-std::sqrt(5) * d / length);
}

// Inverse and determinant by Gauss and Jordan, with pivots.
std::pair<Matrix, double> Invert(Matrix a) {
  const size_t n = a.size();
  double determinant = 1;
  Matrix inverse(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) inverse[i][i] = 1;
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (pivot != column) determinant = -determinant;
    std::swap(a[pivot], a[column]);
    std::swap(inverse[pivot], inverse[column]);
    const double factor = a[column][column];
    determinant *= factor;
    for (size_t k = 0; k < n; ++k) {
      a[column][k] /= factor;
      inverse[column][k] /= factor;
    }
    for (size_t row = 0; row < n; ++row) {
      if (row == column) continue;
      const double part = a[row][column];
      for (size_t k = 0; k < n; ++k) {
        a[row][k] -= part * a[column][k];
        inverse[row][k] -= part * inverse[column][k];
      }
    }
  }
  return {inverse, determinant};
}

TEST(GaussianProcessTest, OneValueHasAClosedForm) {
  const GaussianProcess process({/*length_scale=*/2, /*noise_variance=*/0.25}, {{1, 1}}, {3});
  const auto there = process.Predict({1, 1});
  EXPECT_NEAR(there.mean, 3 / 1.25, 1e-12);
  EXPECT_NEAR(there.variance, 1 - 1 / 1.25, 1e-12);
  const double k = Matern({1, 1}, {3, 1}, 2);
  EXPECT_NEAR(k, (1 + std::sqrt(5) + 5.0 / 3) * std::exp(-std::sqrt(5)), 1e-15);
  const auto beside = process.Predict({3, 1});
  EXPECT_NEAR(beside.mean, 3 * k / 1.25, 1e-12);
  EXPECT_NEAR(beside.variance, 1 - k * k / 1.25, 1e-12);
  EXPECT_NEAR(process.log_marginal_likelihood(),
              -0.5 * (9 / 1.25 + std::log(1.25) + std::log(2 * kPi)), 1e-12);
}

TEST(GaussianProcessTest, ThePosteriorIsThatOfTheExplicitInverse) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const size_t n = 1 + random.UniformInt(12);
    const double length = 1 + 5 * random.UniformFloat();
    const double noise = 0.01 + random.UniformFloat();
    std::vector<TuningPoint> points(n);
    std::vector<double> values(n);
    for (size_t i = 0; i < n; ++i) {
      points[i] = {8.0 * random.UniformFloat(), 8.0 * random.UniformFloat()};
      values[i] = random.Normal();
    }
    Matrix covariance(n, std::vector<double>(n));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) covariance[i][j] = Matern(points[i], points[j], length);
      covariance[i][i] += noise;
    }
    const auto [inverse, determinant] = Invert(covariance);
    const GaussianProcess process({length, noise}, points, values);

    const TuningPoint at = {8.0 * random.UniformFloat(), 8.0 * random.UniformFloat()};
    double mean = 0, variance = 1, squares = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        mean += Matern(at, points[i], length) * inverse[i][j] * values[j];
        variance -= Matern(at, points[i], length) * inverse[i][j] * Matern(at, points[j], length);
        squares += values[i] * inverse[i][j] * values[j];
      }
    }
    EXPECT_NEAR(process.Predict(at).mean, mean, 1e-9);
    EXPECT_NEAR(process.Predict(at).variance, variance, 1e-9);
    EXPECT_NEAR(
        process.log_marginal_likelihood(),
        -0.5 * (squares + std::log(determinant) + static_cast<double>(n) * std::log(2 * kPi)),
        1e-9);
  }
}

TEST(GaussianProcessTest, TheFitTellsASmoothFunctionFromNoise) {
  Random random(/*seed=*/5);
  std::vector<TuningPoint> points;
  std::vector<double> smooth, noise;
  for (int i = 0; i < 16; ++i) {
    points.push_back({i % 4 * 2.0, i / 4 * 2.0});
    smooth.push_back((points.back()[0] - 3) / 2.24);
    noise.push_back(random.Normal());
  }
  // Between the points: the line, and hardly anything.
  EXPECT_NEAR(FitGaussianProcess(points, smooth).Predict({5, 3}).mean, 2 / 2.24, 0.1);
  EXPECT_LT(FitGaussianProcess(points, smooth).Predict({5, 3}).variance, 0.05);
  EXPECT_GT(FitGaussianProcess(points, noise).Predict({5, 3}).variance, 0.1);
}

}  // namespace
}  // namespace capstan
