#include "shared/report/style.h"

namespace retina {

const char* const kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2330; --soft: #667085; --rule: #e4e7ec;
  --accent: #2f5fd0; --bar: #2f5fd022; --stripe: #f9fafb;
  --c0: #2f5fd0; --c1: #d9542b; --c2: #1a936f; --c3: #8f4bc9;
  --c4: #c08a00; --c5: #0f8fa8; --c6: #c8337d; --c7: #5c6b7a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11151c; --card: #1a202a; --ink: #e6e9ef; --soft: #98a2b3; --rule: #2b3342;
    --accent: #7ea6ff; --bar: #7ea6ff2b; --stripe: #1e2530;
    --c0: #7ea6ff; --c1: #ff8f6b; --c2: #55d0a5; --c3: #c69bf2;
    --c4: #f0c04a; --c5: #5fd0e6; --c6: #ff86bd; --c7: #a5b1bf;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 36px 24px 60px; }
header { margin-bottom: 26px; }
h1 { font-size: 27px; line-height: 1.25; margin: 0; letter-spacing: -.01em; }
h1, .subtitle { overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 34px 0 12px; }
h3 { font-size: 14px; margin: 0; font-weight: 650; }
.subtitle { color: var(--soft); margin: 4px 0 0; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
.figures { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(168px, 1fr)); }
.figure { padding: 13px 16px 12px; }
.figure .label { color: var(--soft); font-size: 12.5px; }
.figure .value { font-size: 24px; font-weight: 650; line-height: 1.3;
  overflow-wrap: anywhere; }
.figure .value, td, .plot { font-variant-numeric: tabular-nums; }
.figure .detail { color: var(--soft); font-size: 12.5px; }
.curves { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); }
.curve { padding: 14px 14px 8px; }
.curve.wide { grid-column: 1 / -1; min-width: 0; }
.curve .unit { color: var(--soft); font-weight: 400; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 4px 0 6px; font-size: 12.5px;
  color: var(--soft); min-height: 19px; }
.legend i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin-right: 6px;
  vertical-align: middle; background: currentColor; }
.legend b { color: var(--ink); font-weight: 600; margin-left: 5px;
  font-variant-numeric: tabular-nums; }
.plot { display: block; width: 100%; height: auto; }
.plot text { font-size: 11.5px; fill: var(--soft); }
.plot .end { text-anchor: end; } .plot .mid { text-anchor: middle; }
.plot .grid { stroke: var(--rule); } .plot .axis, .plot .notch { stroke: var(--soft); }
.plot .line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round;
  stroke-linecap: round; }
.plot .mark { fill: var(--card); stroke: currentColor; stroke-width: 2; }
.plot .line.faint { stroke-width: 1; opacity: .3; }
.plot .span { stroke: currentColor; stroke-width: 2; stroke-linecap: round; }
.plot .dot { fill: currentColor; }
.plot .column { fill: currentColor; opacity: .8; }
.plot .rule { stroke: var(--c1); stroke-dasharray: 4 3; }
.plot.intervals { min-width: 620px; }
.plot.wide { min-width: 860px; }
.curve .scroll { overflow-x: auto; }
.curve .note { color: var(--soft); font-size: 12.5px; margin: 6px 2px; }
.s0 { color: var(--c0); } .s1 { color: var(--c1); } .s2 { color: var(--c2); }
.s3 { color: var(--c3); } .s4 { color: var(--c4); } .s5 { color: var(--c5); }
.s6 { color: var(--c6); } .s7 { color: var(--c7); }
.none { color: var(--soft); margin: 40px 0 50px; text-align: center; }
.tables { display: grid; gap: 16px; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); }
.table { overflow: hidden; }
.table.wide { grid-column: 1 / -1; }
.table h3 { padding: 13px 16px 9px; }
.table .scroll { overflow: auto; max-height: 560px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { position: sticky; top: 0; background: var(--card); color: var(--soft); font-weight: 550;
  font-size: 12.5px; box-shadow: inset 0 -1px var(--rule); }
th, td { padding: 5px 16px; text-align: right; white-space: nowrap; }
.sentence { text-align: left; white-space: normal; min-width: 220px; overflow-wrap: anywhere; }
th:first-child, td:first-child { text-align: left; }
tbody tr:nth-child(even) { background: var(--stripe); }
td.bar { background: linear-gradient(var(--bar), var(--bar)) no-repeat left center / var(--w) 70%; }
.table .note, .gallery-note { color: var(--soft); font-size: 12.5px; margin: 0; padding: 9px 16px; }
.gallery-note { padding: 0 0 10px; margin-top: -6px; }
.gallery { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); }
.gallery figure { margin: 0; overflow: hidden; display: flex; flex-direction: column; }
.gallery img { display: block; width: 100%; height: 270px; object-fit: contain;
  background: var(--stripe); }
.gallery figcaption { padding: 8px 12px 9px; font-size: 12.5px; color: var(--soft);
  overflow-wrap: anywhere; }
.findings { padding: 12px 18px 12px 38px; margin: 0; }
.findings li { padding: 3px 0; }
.findings code { display: block; margin: 5px 0 4px; padding: 6px 11px; border-radius: 6px;
  background: var(--stripe); border: 1px solid var(--rule); font-size: 13px; user-select: all;
  overflow-wrap: anywhere; }
.notes { padding: 12px 16px 12px 34px; margin: 0; }
details { margin-top: 34px; }
summary { cursor: pointer; padding: 12px 16px; font-weight: 600; }
details table { border-top: 1px solid var(--rule); }
details td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
details td:first-child { color: var(--soft); white-space: nowrap; width: 1%; }
footer { color: var(--soft); font-size: 12.5px; margin-top: 34px; }
@media (max-width: 560px) {
  main { padding: 20px 12px 40px; }
  .curves, .tables, .gallery { grid-template-columns: minmax(0, 1fr); }
}
@media print {
  body { background: none; }
  main { padding: 0; }
  h2 { break-after: avoid; }
  .curves { grid-template-columns: 1fr 1fr; }
  .gallery { grid-template-columns: 1fr 1fr 1fr; }
  .gallery img { height: 170px; }
  .table .scroll { max-height: none; }
  .card { break-inside: avoid; }
  .table.wide { break-inside: auto; }
  .plot .column { fill: currentColor; opacity: .8; }
.plot .rule { stroke: var(--c1); stroke-dasharray: 4 3; }
.plot.intervals { max-height: 230mm; }
.plot.wide { min-width: 0; }
}
)css";

}  // namespace retina
