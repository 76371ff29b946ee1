#include "shared/report/curve_svg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "shared/base/cat.h"
#include "shared/report/axis.h"
#include "shared/report/text.h"

namespace retina {
namespace {

constexpr double kWidth = 560, kHeight = 280;
constexpr double kLeft = 52, kRight = 14, kTop = 12, kBottom = 40;
constexpr int kColourCount = 8;
constexpr std::size_t kMostPoints = 1200, kMostMarks = 80;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

bool drawable(double x, double y, const Curve& curve) {
  return std::isfinite(x) && std::isfinite(y) && (!curve.log_x || x > 0) && (!curve.log_y || y > 0);
}

class Plot {
 public:
  Plot(const Curve& curve, Axis x, Axis y) : curve_(curve), x_(std::move(x)), y_(std::move(y)) {}

  std::string svg() {
    out_ = cat("<svg class=\"plot\" viewBox=\"0 0 ", kWidth, ' ', kHeight,
               "\" role=\"img\" aria-label=\"", escape_html(curve_.title), "\">\n");
    draw_frame();
    const std::vector<std::string> classes = series_classes(curve_.series);
    for (std::size_t i = 0; i < curve_.series.size(); ++i) draw(curve_.series[i], classes[i]);
    return out_ + "</svg>\n";
  }

 private:
  static std::string number(double value) { return fixed(value, 1); }
  std::string px(double x) const { return number(kLeft + x_.place(x) * (kWidth - kLeft - kRight)); }
  std::string py(double y) const {
    return number(kHeight - kBottom - y_.place(y) * (kHeight - kTop - kBottom));
  }

  void draw_frame() {
    const std::string left = number(kLeft), right = number(kWidth - kRight);
    const std::string floor = number(kHeight - kBottom);
    for (const Tick& tick : y_.ticks) {
      out_ +=
          cat("<line class=\"grid\" x1=\"", left, "\" x2=\"", right, "\" y1=\"", py(tick.value),
              "\" y2=\"", py(tick.value), "\"/><text class=\"tick end\" x=\"", number(kLeft - 8),
              "\" y=\"", py(tick.value), "\" dy=\".35em\">", tick.label, "</text>\n");
    }
    for (const Tick& tick : x_.ticks) {
      out_ += cat("<line class=\"notch\" x1=\"", px(tick.value), "\" x2=\"", px(tick.value),
                  "\" y1=\"", floor, "\" y2=\"", number(kHeight - kBottom + 4),
                  "\"/><text class=\"tick mid\" x=\"", px(tick.value), "\" y=\"",
                  number(kHeight - kBottom + 17), "\">", tick.label, "</text>\n");
    }
    out_ +=
        cat("<line class=\"axis\" x1=\"", left, "\" x2=\"", right, "\" y1=\"", floor, "\" y2=\"",
            floor, "\"/>\n<text class=\"label mid\" x=\"", number((kLeft + kWidth - kRight) / 2),
            "\" y=\"", number(kHeight - 5), "\">", escape_html(curve_.x_label), "</text>\n");
  }

  void draw(const Series& all, const std::string& style) {
    const Series series = thinned(all, kMostPoints);
    std::string path;
    bool pen_down = false;
    for (std::size_t i = 0; i < series.xs.size(); ++i) {
      if (!drawable(series.xs[i], series.ys[i], curve_)) {
        pen_down = false;
        continue;
      }
      path += cat(pen_down ? 'L' : 'M', px(series.xs[i]), ' ', py(series.ys[i]));
      pen_down = true;
    }
    if (!path.empty()) out_ += cat("<path class=\"line ", style, "\" d=\"", path, "\"/>\n");
    if (!series.points && series.xs.size() > 1) return;
    if (series.xs.size() > kMostMarks) return;
    for (std::size_t i = 0; i < series.xs.size(); ++i) {
      if (!drawable(series.xs[i], series.ys[i], curve_)) continue;
      out_ += cat("<circle class=\"mark ", style, "\" cx=\"", px(series.xs[i]), "\" cy=\"",
                  py(series.ys[i]), "\" r=\"3\"><title>", escape_html(curve_.x_label), ' ',
                  short_number(series.xs[i]), ": ", escape_html(series.name), ' ',
                  short_number(series.ys[i]), "</title></circle>\n");
    }
  }

  const Curve& curve_;
  Axis x_, y_;
  std::string out_;
};

}  // namespace

Series thinned(const Series& series, std::size_t limit) {
  Series out = series;
  const std::size_t count = std::min(series.xs.size(), series.ys.size());
  out.xs.resize(count);
  out.ys.resize(count);
  if (count <= limit) return out;
  const std::size_t stretches = std::max<std::size_t>(1, limit / 2);
  out.xs.clear();
  out.ys.clear();
  for (std::size_t k = 0; k < stretches; ++k) {
    const std::size_t begin = k * count / stretches, end = (k + 1) * count / stretches;
    std::size_t low = begin, high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(series.ys[i])) continue;
      if (!std::isfinite(series.ys[low]) || series.ys[i] < series.ys[low]) low = i;
      if (!std::isfinite(series.ys[high]) || series.ys[i] > series.ys[high]) high = i;
    }
    for (const std::size_t i : {std::min(low, high), std::max(low, high)}) {
      out.xs.push_back(series.xs[i]);
      out.ys.push_back(series.ys[i]);
    }
  }
  return out;
}

std::vector<std::string> series_classes(const std::vector<Series>& series) {
  std::vector<std::string> classes;
  int colour = 0;
  for (const Series& one : series) {
    classes.push_back(cat('s', colour % kColourCount, one.faint ? " faint" : ""));
    if (!one.faint) ++colour;
  }
  return classes;
}

std::string curve_svg(const Curve& curve) {
  Range x, y;
  for (const Series& series : curve.series) {
    for (std::size_t i = 0; i < std::min(series.xs.size(), series.ys.size()); ++i) {
      if (!drawable(series.xs[i], series.ys[i], curve)) continue;
      x.take(series.xs[i]);
      y.take(series.ys[i]);
    }
  }
  if (x.empty()) return "<p class=\"none\">no values</p>\n";
  if (curve.from_zero && !curve.log_y) y.take(0);
  return Plot(curve, make_axis(x.low, x.high, {.log = curve.log_x, .tick_count = 6}),
              make_axis(y.low, y.high, {.log = curve.log_y, .round = true}))
      .svg();
}

}  // namespace retina
