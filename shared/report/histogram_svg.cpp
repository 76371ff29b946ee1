#include "shared/report/histogram_svg.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/report/axis.h"
#include "shared/report/text.h"

namespace retina {
namespace {

constexpr double kBarsLeft = 52, kBarsRight = 14, kBarsTop = 20;
constexpr double kBarGap = 1.5;
constexpr std::size_t kSlantedCharacters = 14;

class Bars {
 public:
  Bars(const Histogram& histogram, Axis axis)
      : histogram_(histogram),
        axis_(std::move(axis)),
        width_(histogram.wide ? 1140 : 560),
        height_(histogram.wide ? 320 : 240),
        bottom_(histogram.wide ? 108 : 40) {}

  std::string svg() {
    out_ =
        cat("<svg class=\"plot", histogram_.wide ? " wide" : "", "\" viewBox=\"0 0 ", width_, ' ',
            height_, "\" role=\"img\" aria-label=\"", escape_html(histogram_.title), "\">\n");
    for (const Tick& tick : axis_.ticks) {
      line("grid", {kBarsLeft, py(tick.value), width_ - kBarsRight, py(tick.value)});
      text("tick end", kBarsLeft - 8, py(tick.value) + 4, tick.label);
    }
    for (std::size_t i = 0; i < histogram_.bars.size(); ++i) draw(histogram_.bars[i], i);
    line("axis", {kBarsLeft, floor(), width_ - kBarsRight, floor()});
    for (const HistogramMark& mark : histogram_.marks) {
      const double x = px(mark.place);
      line("rule", {x, kBarsTop, x, floor()});
      text("tick mid", x, kBarsTop - 7, mark.text);
    }
    text("label mid", (kBarsLeft + width_ - kBarsRight) / 2, height_ - 5, histogram_.x_label);
    return out_ + "</svg>\n";
  }

 private:
  struct Ends {
    double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  };
  double floor() const { return height_ - bottom_; }
  double py(double value) const { return floor() - axis_.place(value) * (floor() - kBarsTop); }
  // The left end of a bar, and any place between.
  double px(double place) const {
    const double width = width_ - kBarsLeft - kBarsRight;
    return kBarsLeft + place / static_cast<double>(histogram_.bars.size()) * width;
  }

  void line(const char* style, const Ends& ends) {
    out_ +=
        cat("<line class=\"", style, "\" x1=\"", fixed(ends.x1, 1), "\" x2=\"", fixed(ends.x2, 1),
            "\" y1=\"", fixed(ends.y1, 1), "\" y2=\"", fixed(ends.y2, 1), "\"/>\n");
  }
  void text(const char* style, double x, double y, const std::string& what) {
    out_ += cat("<text class=\"", style, "\" x=\"", fixed(x, 1), "\" y=\"", fixed(y, 1), "\">",
                escape_html(what), "</text>\n");
  }
  void name(double x, const std::string& what) {
    if (!histogram_.wide) return text("tick mid", x, floor() + 17, what);
    const std::string at = cat(fixed(x + 4, 1), ' ', fixed(floor() + 12, 1));
    out_ += cat("<text class=\"tick end\" transform=\"translate(", at, ") rotate(-60)\">",
                escape_html(shortened(what, kSlantedCharacters)), "</text>\n");
  }
  void draw(const HistogramBar& bar, std::size_t place) {
    const double x = px(static_cast<double>(place)), end = px(static_cast<double>(place) + 1);
    // What is not none stays visible.
    const double top = bar.count > 0 ? std::min(py(bar.count), floor() - 1) : floor();
    out_ +=
        cat("<rect class=\"column s0\" x=\"", fixed(x + kBarGap / 2, 1), "\" y=\"", fixed(top, 1),
            "\" width=\"", fixed(std::max(0.5, end - x - kBarGap), 1), "\" height=\"",
            fixed(floor() - top, 1), "\"><title>", escape_html(bar.detail), "</title></rect>\n");
    if (bar.label.empty()) return;
    name(histogram_.labels_edges ? x : (x + end) / 2, bar.label);
  }

  const Histogram& histogram_;
  Axis axis_;
  double width_, height_, bottom_;
  std::string out_;
};

}  // namespace

std::string histogram_svg(const Histogram& histogram) {
  double most = 0;
  for (const HistogramBar& bar : histogram.bars) most = std::max(most, bar.count);
  if (!(most > 0)) return "<p class=\"none\">no values</p>\n";
  return Bars(histogram, make_axis(0, most, {.round = true})).svg();
}

}  // namespace retina
