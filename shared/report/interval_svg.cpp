#include "shared/report/interval_svg.h"

#include <algorithm>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/report/axis.h"
#include "shared/report/text.h"

namespace retina {
namespace {

constexpr double kPlotWidth = 900, kNamesWidth = 200, kPlotRight = 20;
constexpr double kRowHeight = 20, kAxisHeight = 44;
constexpr std::size_t kNameCharacters = 28;

class Rows {
 public:
  Rows(const IntervalPlot& plot, Axis axis) : plot_(plot), axis_(std::move(axis)) {}

  std::string svg() {
    out_ = cat("<svg class=\"plot intervals\" viewBox=\"0 0 ", kPlotWidth, ' ',
               fixed(floor() + kAxisHeight, 0), "\" role=\"img\" aria-label=\"",
               escape_html(plot_.title), "\">\n");
    for (const Tick& tick : axis_.ticks) {
      out_ += vertical("grid", tick.value) + cat("<text class=\"tick mid\" x=\"", px(tick.value),
                                                 "\" y=\"", fixed(floor() + 16, 1), "\">",
                                                 tick.label, "</text>\n");
    }
    out_ += vertical("axis", 0);
    out_ +=
        cat("<text class=\"label mid\" x=\"", fixed((kNamesWidth + kPlotWidth - kPlotRight) / 2, 1),
            "\" y=\"", fixed(floor() + 36, 1), "\">", escape_html(plot_.x_label), "</text>\n");
    for (std::size_t i = 0; i < plot_.rows.size(); ++i) draw(plot_.rows[i], i);
    return out_ + "</svg>\n";
  }

 private:
  double floor() const { return kRowHeight * static_cast<double>(plot_.rows.size()) + 6; }
  std::string px(double value) const {
    return fixed(kNamesWidth + axis_.place(value) * (kPlotWidth - kNamesWidth - kPlotRight), 1);
  }
  std::string vertical(const char* style, double value) const {
    return cat("<line class=\"", style, "\" x1=\"", px(value), "\" x2=\"", px(value),
               "\" y1=\"0\" y2=\"", fixed(floor(), 1), "\"/>\n");
  }

  // Colour says the direction where the interval has 0 outside, otherwise grey.
  static const char* style(const IntervalRow& row) {
    if (!row.marked) return "s7";
    return row.value > 0 ? "s2" : "s1";
  }

  void draw(const IntervalRow& row, std::size_t place) {
    const std::string y = fixed(kRowHeight * (static_cast<double>(place) + .5), 1);
    out_ += cat("<g class=\"", style(row), "\"><title>", escape_html(row.detail),
                "</title><text class=\"end\" x=\"", fixed(kNamesWidth - 12, 1), "\" y=\"", y,
                "\" dy=\".35em\">", escape_html(shortened(row.label, kNameCharacters)), "</text>");
    if (std::isfinite(row.low) && std::isfinite(row.high)) {
      out_ += cat("<line class=\"span\" x1=\"", px(row.low), "\" x2=\"", px(row.high), "\" y1=\"",
                  y, "\" y2=\"", y, "\"/>");
    }
    out_ += cat("<circle class=\"", row.marked ? "dot" : "mark", "\" cx=\"", px(row.value),
                "\" cy=\"", y, "\" r=\"4\"/></g>\n");
  }

  const IntervalPlot& plot_;
  Axis axis_;
  std::string out_;
};

}  // namespace

std::string interval_svg(const IntervalPlot& plot) {
  if (plot.rows.empty()) return "<p class=\"none\">no values</p>\n";
  double low = 0, high = 0;
  for (const IntervalRow& row : plot.rows) {
    for (const double value : {row.value, row.low, row.high}) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  return Rows(plot, make_axis(low, high, {.round = true, .tick_count = 7})).svg();
}

}  // namespace retina
