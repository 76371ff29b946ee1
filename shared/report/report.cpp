#include "shared/report/report.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/base/version.h"
#include "shared/image/jpeg.h"
#include "shared/image/resize.h"
#include "shared/report/axis.h"
#include "shared/report/curve_svg.h"
#include "shared/report/histogram_svg.h"
#include "shared/report/interval_svg.h"
#include "shared/report/page_head.h"
#include "shared/report/style.h"
#include "shared/report/text.h"

namespace retina {
namespace {

constexpr int kImageQuality = 85;

std::string paragraph(const char* style, const std::string& text) {
  return text.empty() ? "" : cat("<p class=\"", style, "\">", escape_html(text), "</p>\n");
}

std::string heading(const std::string& text) {
  return text.empty() ? "" : cat("<h2>", escape_html(text), "</h2>\n");
}

std::string render_metrics(const std::vector<Figure>& metrics) {
  std::string out = "<section class=\"figures\">\n";
  for (const Figure& metric : metrics) {
    out += cat("<div class=\"card figure\"><div class=\"label\">", escape_html(metric.label),
               "</div><div class=\"value\">", escape_html(metric.value),
               "</div><div class=\"detail\">", escape_html(metric.detail), "</div></div>\n");
  }
  return out + "</section>\n";
}

// Each series' colour, name and last value.
std::string render_legend(const std::vector<Series>& series) {
  const std::vector<std::string> styles = series_classes(series);
  std::string out = "<div class=\"legend\">";
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series[i].faint) continue;
    const auto last = std::find_if(series[i].ys.rbegin(), series[i].ys.rend(),
                                   [](double y) { return std::isfinite(y); });
    out += cat("<span><i class=\"", styles[i], "\"></i>", escape_html(series[i].name));
    if (last != series[i].ys.rend()) out += cat("<b>", short_number(*last), "</b>");
    out += "</span>";
  }
  return out + "</div>\n";
}

std::string render_findings(const std::vector<Finding>& findings) {
  std::string out = "<h2>What to look at</h2>\n<ol class=\"card findings\">\n";
  for (const Finding& finding : findings) {
    out += cat("<li>", escape_html(finding.text));
    if (!finding.options.empty()) out += cat("<code>", escape_html(finding.options), "</code>");
    out += "</li>\n";
  }
  return out + "</ol>\n";
}

// The beginning of a chart's card.
std::string chart_head(const std::string& title, const std::string& y_label, bool wide = false) {
  std::string out =
      cat("<div class=\"card curve", wide ? " wide" : "", "\"><h3>", escape_html(title));
  if (!y_label.empty()) out += cat(" <span class=\"unit\">", escape_html(y_label), "</span>");
  return out + "</h3>\n";
}

std::string render_histograms(const std::vector<Histogram>& histograms) {
  std::string out = "<h2>Distributions</h2>\n<section class=\"curves\">\n";
  for (const Histogram& histogram : histograms) {
    out += cat(chart_head(histogram.title, histogram.y_label, histogram.wide),
               "<div class=\"scroll\">", histogram_svg(histogram), "</div></div>\n");
  }
  return out + "</section>\n";
}

std::string render_curves(const std::vector<Curve>& curves) {
  std::string out = "<h2>Curves</h2>\n<section class=\"curves\">\n";
  for (const Curve& curve : curves) {
    out += cat(chart_head(curve.title, curve.y_label), render_legend(curve.series),
               curve_svg(curve), "</div>\n");
  }
  return out + "</section>\n";
}

std::string render_intervals(const IntervalPlot& plot) {
  return cat(heading(plot.title), "<div class=\"card curve\"><div class=\"scroll\">",
             interval_svg(plot), "</div>", paragraph("note", plot.note), "</div>\n");
}

std::string bar_style(double length) {
  return cat(" class=\"bar\" style=\"--w:", fixed(length * 100, 1), "%\"");
}

// A cell that is a number in [0, 1], as a bar's length.
std::string bar_style(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return "";
  if (!(value >= 0 && value <= 1)) return "";
  return bar_style(value);
}

std::string render_table(const Table& table) {
  std::string out = cat("<div class=\"card table", table.wide ? " wide" : "", "\">");
  if (!table.title.empty()) out += cat("<h3>", escape_html(table.title), "</h3>");
  out += "<div class=\"scroll\"><table><thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const char* text = static_cast<int>(i) == table.text_column ? " class=\"sentence\"" : "";
    out += cat("<th", text, ">", escape_html(table.columns[i]), "</th>");
  }
  out += "</tr></thead><tbody>\n";
  for (std::size_t at = 0; at < table.rows.size(); ++at) {
    const std::vector<std::string>& row = table.rows[at];
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string bar;
      if (static_cast<int>(i) == table.bar_column) {
        bar = at < table.bars.size() ? bar_style(table.bars[at]) : bar_style(row[i]);
      }
      const char* text = static_cast<int>(i) == table.text_column ? " class=\"sentence\"" : "";
      out += cat("<td", text, bar, ">", escape_html(row[i]), "</td>");
    }
    out += "</tr>\n";
  }
  return cat(out, "</tbody></table></div>", paragraph("note", table.note), "</div>\n");
}

std::string render_gallery(const Gallery& gallery) {
  std::string out = heading(gallery.title) + paragraph("gallery-note", gallery.note) +
                    "<section class=\"gallery\">\n";
  for (const EmbeddedImage& image : gallery.images) {
    out += "<figure class=\"card\"><img alt=\"" + escape_html(image.caption) +
           "\" src=\"data:image/jpeg;base64," + base64(image.jpeg) + "\"><figcaption>" +
           escape_html(image.caption) + "</figcaption></figure>\n";
  }
  return out + "</section>\n";
}

std::string render_notes(const std::vector<std::string>& notes) {
  std::string out = "<h2>Notes</h2>\n<ul class=\"card notes\">\n";
  for (const std::string& note : notes) out += cat("<li>", escape_html(note), "</li>\n");
  return out + "</ul>\n";
}

std::string render_settings(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string out = "<details class=\"card\"><summary>Settings</summary><table><tbody>\n";
  for (const auto& [key, value] : settings) {
    out += cat("<tr><td>", escape_html(key), "</td><td>", escape_html(value), "</td></tr>\n");
  }
  return out + "</tbody></table></details>\n";
}

}  // namespace

std::string render_report(const Report& report) {
  std::string out = cat(page_head({.title = report.title, .style = kReportStyle}),
                        "<body><main>\n<header><h1>", escape_html(report.title), "</h1>\n",
                        paragraph("subtitle", report.subtitle), "</header>\n");
  if (!report.metrics.empty()) out += render_metrics(report.metrics);
  if (!report.findings.empty()) out += render_findings(report.findings);
  if (!report.curves.empty()) out += render_curves(report.curves);
  if (!report.histograms.empty()) out += render_histograms(report.histograms);
  if (!report.tables.empty()) {
    out += heading(report.tables_title) + "<section class=\"tables\">\n";
    for (const Table& table : report.tables) out += render_table(table);
    out += "</section>\n";
  }
  for (const IntervalPlot& plot : report.intervals) out += render_intervals(plot);
  for (const Gallery& gallery : report.galleries) {
    if (!gallery.images.empty()) out += render_gallery(gallery);
  }
  if (!report.notes.empty()) out += render_notes(report.notes);
  if (!report.settings.empty()) out += render_settings(report.settings);
  return cat(out, "<footer>retina-batch ", kProjectVersion, " (", kGitRevision,
             ")</footer>\n</main></body></html>\n");
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
