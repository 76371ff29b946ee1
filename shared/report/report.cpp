#include "shared/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/image/jpeg.h"
#include "shared/image/resize.h"

namespace retina {

extern const EmbeddedText kReportScript;

namespace {

constexpr int kImageQuality = 85;

// Writes an array by calling `write` for each item.
template <class T, class F>
void write_all(JsonWriter& json, const char* name, const std::vector<T>& items, const F& write) {
  json.key(name).begin_array();
  for (const T& item : items) write(item);
  json.end_array();
}

void write(JsonWriter& json, const Curve& curve) {
  json.begin_object().field("title", curve.title).field("x_label", curve.x_label);
  json.field("y_label", curve.y_label)
      .field("from_zero", curve.from_zero)
      .field("y_reaches", curve.y_reaches);
  json.field("log_x", curve.log_x).field("log_y", curve.log_y);
  write_all(json, "series", curve.series, [&](const Series& one) {
    json.begin_object().field("name", one.name).field("faint", one.faint);
    json.field("points", one.points);
    json.list("xs", one.xs).list("ys", one.ys).end_object();
  });
  write_all(json, "marks", curve.marks, [&](const CurveMark& mark) {
    json.begin_object().field("x", mark.x).field("text", mark.text).end_object();
  });
  json.end_object();
}

void write(JsonWriter& json, const Histogram& histogram) {
  json.begin_object().field("title", histogram.title).field("x_label", histogram.x_label);
  json.field("y_label", histogram.y_label).field("labels_edges", histogram.labels_edges);
  json.field("wide", histogram.wide);
  write_all(json, "bars", histogram.bars, [&](const HistogramBar& bar) {
    json.begin_object().field("label", bar.label).field("detail", bar.detail);
    json.field("count", bar.count).end_object();
  });
  write_all(json, "marks", histogram.marks, [&](const HistogramMark& mark) {
    json.begin_object().field("place", mark.place).field("text", mark.text).end_object();
  });
  json.end_object();
}

void write(JsonWriter& json, const Table& table) {
  json.begin_object().field("title", table.title).field("note", table.note);
  json.field("bar_column", table.bar_column).field("text_column", table.text_column);
  json.field("wide", table.wide);
  json.list("columns", table.columns);
  json.list("bars", table.bars);
  write_all(json, "rows", table.rows, [&](const std::vector<std::string>& row) { json.list(row); });
  json.end_object();
}

// Writes a gallery; its files go into `jpegs`, keyed by their numbers in the JSON.
void write(JsonWriter& json, const Gallery& gallery, std::map<std::int64_t, std::string>& jpegs) {
  json.begin_object().field("title", gallery.title).field("note", gallery.note);
  write_all(json, "images", gallery.images, [&](const EmbeddedImage& image) {
    const auto id = static_cast<std::int64_t>(jpegs.size());
    jpegs[id] = image.jpeg;
    json.begin_object().field("caption", image.caption).field("image", id).end_object();
  });
  json.end_object();
}

std::string summary_text(const Report& report) {
  std::string text;
  for (const Headline& one : report.metrics) {
    text +=
        cat(one.label, ": ", one.value, one.detail.empty() ? "" : cat(" (", one.detail, ")"), '\n');
  }
  for (const Finding& one : report.findings)
    text += cat(one.text, one.options.empty() ? "" : " ", one.options, '\n');
  return text;
}

}  // namespace

std::string render_report(const Report& report) {
  Page page{.title = report.title,
            .subtitle = report.subtitle,
            .summary = summary_text(report),
            .settings = report.settings,
            .notes = report.notes};
  const auto write_each = [](JsonWriter& json, const char* name, const auto& items) {
    write_all(json, name, items, [&](const auto& item) { write(json, item); });
  };
  JsonWriter json;
  json.begin_object();
  write_all(json, "metrics", report.metrics, [&](const Headline& one) {
    json.begin_object().field("label", one.label).field("value", one.value);
    json.field("detail", one.detail).end_object();
  });
  write_all(json, "findings", report.findings, [&](const Finding& one) {
    json.begin_object().field("text", one.text).field("options", one.options).end_object();
  });
  write_each(json, "curves", report.curves);
  write_each(json, "histograms", report.histograms);
  json.field("tables_title", report.tables_title);
  write_each(json, "tables", report.tables);
  write_all(json, "galleries", report.galleries,
            [&](const Gallery& gallery) { write(json, gallery, page.jpegs); });
  page.data = json.end_object().text();
  return render_page(page, kReportScript);
}

EmbeddedImage embed_image(const Image& image, const std::string& caption, int max_side_px) {
  const int longer = std::max(image.width, image.height);
  if (longer <= max_side_px) return {.caption = caption, .jpeg = encode_jpeg(image, kImageQuality)};
  const auto side = [&](int from) {
    return std::max(1, static_cast<int>(std::int64_t{from} * max_side_px / longer));
  };
  const Image small = shrink(image, {.width = side(image.width), .height = side(image.height)});
  return {.caption = caption, .jpeg = encode_jpeg(small, kImageQuality)};
}

std::vector<double> smoothed(const std::vector<double>& ys, double values) {
  const double keep = 1 - 1 / std::max(1.0, values);
  std::vector<double> out;
  out.reserve(ys.size());
  double sum = 0, weight = 0;
  for (const double y : ys) {
    if (std::isfinite(y)) {
      sum = keep * sum + (1 - keep) * y;
      weight = keep * weight + (1 - keep);
    }
    out.push_back(weight > 0 ? sum / weight : y);
  }
  return out;
}

}  // namespace retina
