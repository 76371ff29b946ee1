// The content of most pages: metrics, findings, curves, histograms, tables, images. Callers pass
// text raw.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shared/image/image.h"
#include "shared/report/page.h"

namespace retina {

// A headline number: "AP@[.5:.95]", "0.458", "epoch 12".
struct Headline {
  std::string label{}, value{}, detail{};
};

struct Series {
  std::string name{};
  std::vector<double> xs{}, ys{};  // equally long; points that are not finite break the line
  bool faint = false;              // raw values behind a smoothed line
  bool points = false;             // mark every point (few values)
};

// A place on a curve's x axis where something happened.
struct CurveMark {
  double x = 0;  // within the values' range, else it is not drawn
  std::string text{};
};

struct Curve {
  std::string title{}, x_label{}, y_label{};
  std::vector<Series> series{};
  std::vector<CurveMark> marks{};
  bool log_y = false;  // only positive values are drawn then
  bool from_zero = false;
  bool log_x = false;
  double y_reaches = 0;  // with from_zero: the y axis ends there at least
};

struct HistogramBar {
  std::string label{}, detail{};  // the detail is shown on hover; no label: none is written
  double count = 0;               // finite, >= 0
};

struct HistogramMark {
  double place = 0;  // in bars from the left
  std::string text{};
};

// A histogram: counts side by side.
struct Histogram {
  std::string title{}, x_label{}, y_label{};
  std::vector<HistogramBar> bars{};
  std::vector<HistogramMark> marks{};
  bool labels_edges = false;  // a label stands at its bar's left edge, not under its middle
  bool wide = false;          // over the page's whole width, names slanted: many bars
};

// A finding that the reader should act on, with the options to copy (or nothing).
struct Finding {
  std::string text{}, options{};
};

struct Table {
  std::string title{};
  std::vector<std::string> columns{};            // the first is text, numbers align right
  std::vector<std::vector<std::string>> rows{};  // cells; a short row ends early
  std::string note{};
  int bar_column = -1;         // the column that has bars behind its text
  std::vector<double> bars{};  // their lengths, one a row, in [0, 1]
  int text_column = -1;        // a column of sentences, which wrap
  bool wide = false;           // over the page's whole width: many columns
};

struct EmbeddedImage {
  std::string caption{};
  std::string jpeg{};  // the file's bytes
};

// A titled group of images.
struct Gallery {
  std::string title{}, note{};
  std::vector<EmbeddedImage> images{};
};

struct Report {
  std::string title{}, subtitle{};
  std::vector<Headline> metrics{};
  std::vector<Finding> findings{};
  std::vector<Curve> curves{};
  std::vector<Histogram> histograms{};
  std::string tables_title = "Results";
  std::vector<Table> tables{};
  std::vector<Gallery> galleries{};
  std::vector<std::pair<std::string, std::string>> settings{};  // key, value; a closed section
  std::vector<std::string> notes{};
};

// Returns the page (shared/report/page.h) as text.
std::string render_report(const Report& report);

// Encodes an image for `Gallery`: shrinks it to at most `max_side_px`, JPEG.
EmbeddedImage embed_image(const Image& image, const std::string& caption, int max_side_px = 640);

// Returns `ys` smoothed by an exponential moving average (bias-corrected) of that many values.
std::vector<double> smoothed(const std::vector<double>& ys, double values);

}  // namespace retina
