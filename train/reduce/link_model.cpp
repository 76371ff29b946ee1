#include "train/reduce/link_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/measure.h"

namespace retina {
namespace {

// One size on one number of ranks: seconds = messages · α + volume / β.
struct Point {
  int ranks;
  double bytes, messages, volume, seconds;
};

struct Line {
  double latency = 0, seconds_per_byte = 0;

  double log_error(const Point& point) const {
    const double predicted = point.messages * latency + point.volume * seconds_per_byte;
    return std::abs(std::log(predicted / point.seconds));
  }
};

// The line through two of the points, or one alone, that most points lie near: an outlier of any
// size does not move it.
Line robust_line(const std::vector<Point>& points) {
  std::vector<Line> candidates;
  for (const Point& p : points) {
    candidates.push_back({p.seconds / p.messages, 0});
    candidates.push_back({0, p.seconds / p.volume});
    for (const Point& q : points) {
      const double determinant = p.messages * q.volume - q.messages * p.volume;
      const double latency = (p.seconds * q.volume - q.seconds * p.volume) / determinant;
      const double slope = (q.seconds * p.messages - p.seconds * q.messages) / determinant;
      if (determinant > 0 && slope > 0 && latency > 0) candidates.push_back({latency, slope});
    }
  }
  const auto distance = [&](const Line& line) {
    double sum = 0;
    for (const Point& point : points) sum += line.log_error(point);
    return sum;
  };
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](const Line& a, const Line& b) { return distance(a) < distance(b); });
}

// Each equation is divided by its time: messages/t · α + volume/t · (1/β) = 1.
Line least_squares(const std::vector<Point>& points) {
  double mm = 0, mv = 0, vv = 0, m1 = 0, v1 = 0;
  for (const Point& point : points) {
    const double m = point.messages / point.seconds, v = point.volume / point.seconds;
    mm += m * m;
    mv += m * v;
    vv += v * v;
    m1 += m;
    v1 += v;
  }
  const double determinant = mm * vv - mv * mv;
  const Line line{(m1 * vv - v1 * mv) / determinant, (v1 * mm - m1 * mv) / determinant};
  // At a bound, the best is what the other term alone can do.
  if (line.latency < 0) return {0, v1 / vv};
  if (line.seconds_per_byte < 0) return {m1 / mm, 0};
  return line;
}

}  // namespace

double all_reduce_seconds(int ranks, const LinkCost& link, double bytes) {
  return 2.0 * (ranks - 1) * link.latency_seconds +
         2.0 * (ranks - 1) / ranks * bytes / link.bytes_per_second;
}

double RingFit::all_reduce_seconds(double bytes) const {
  return retina::all_reduce_seconds(ranks, link, bytes);
}

LinkFit fit_links(const std::vector<RingSamples>& rings) {
  // One point per size and number of ranks: the median of its repeats.
  std::map<std::pair<int, double>, std::vector<double>> repeats;
  for (const auto& ring : rings) {
    RETINA_CHECK(ring.ranks >= 2, ring.ranks);
    for (const auto& sample : ring.samples) {
      RETINA_CHECK(sample.bytes > 0 && sample.seconds > 0, sample.bytes, " bytes in ",
                   sample.seconds, " s");
      repeats[{ring.ranks, sample.bytes}].push_back(sample.seconds);
    }
  }
  RETINA_CHECK(repeats.size() >= 2, repeats.size(), " sizes");

  std::vector<Point> points;
  for (const auto& [key, seconds] : repeats) {
    const auto& [ranks, bytes] = key;
    const double volume = 2.0 * (ranks - 1) / ranks * bytes;
    points.push_back({ranks, bytes, 2.0 * (ranks - 1), volume, median(seconds)});
  }
  // Sizes that do not follow the line that most do are left out.
  Line line = robust_line(points);
  std::vector<double> log_errors;
  for (const Point& point : points) log_errors.push_back(line.log_error(point));
  const double limit = std::max(std::log(1.2), 3 * median(log_errors));

  LinkFit fit;
  std::vector<Point> followers;
  for (const Point& point : points) {
    if (line.log_error(point) <= limit) {
      followers.push_back(point);
    } else {
      fit.left_out.push_back({point.ranks, point.bytes});
    }
  }
  if (followers.size() >= 2) line = least_squares(followers);

  // How far the fitted link is off.
  fit.link = {line.latency, 1 / line.seconds_per_byte};
  std::vector<double> errors;
  for (const Point& point : followers) {
    errors.push_back(
        std::abs(all_reduce_seconds(point.ranks, fit.link, point.bytes) / point.seconds - 1));
  }
  fit.median_relative_error = median(errors);
  fit.worst_relative_error = *std::max_element(errors.begin(), errors.end());
  return fit;
}

RingFit fit_ring(const std::vector<AllReduceSample>& samples, int ranks) {
  const LinkFit fit = fit_links({{.ranks = ranks, .samples = samples}});
  RingFit result{.ranks = ranks,
                 .link = fit.link,
                 .median_relative_error = fit.median_relative_error,
                 .worst_relative_error = fit.worst_relative_error};
  for (const auto& left_out : fit.left_out) result.left_out_bytes.push_back(left_out.bytes);
  return result;
}

}  // namespace retina
