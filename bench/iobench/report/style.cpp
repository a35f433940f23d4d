#include "bench/iobench/report/style.hpp"

namespace tierfs::iobench {

const char* const kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1b1f24; --muted: #57606a; --line: #d0d7de; --shade: #f6f8fa;
  --better: #0b6b3a; --worse: #a3231f; --link: #0b57d0;
  --look-0: #004488; --look-1: #ddaa33; --look-2: #bb5566; --look-3: #44aa99;
  --look-4: #6f4a9e; --look-5: #88b8e8; --look-6: #7a5c00; --look-7: #999999;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --text: #e4e8ec; --muted: #9aa4af; --line: #3a424c; --shade: #1d2127;
    --better: #63d297; --worse: #ff8f88; --link: #8ab4f8;
    --look-0: #5b9bf0; --look-1: #f0c95a; --look-2: #e0788a; --look-3: #55c9b5;
    --look-4: #b796e8; --look-5: #b5d6f7; --look-6: #b8973a; --look-7: #a8b0b8;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 1rem 1.25rem 4rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 1rem 0 .25rem; font-size: 1.8rem; }
h2 { margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); font-size: 1.4rem; }
h3 { margin: 1.75rem 0 .5rem; font-size: 1.1rem; }
h1, h2, h3, td, th, li, dd, p, figcaption { overflow-wrap: anywhere; }
a { color: var(--link); }
p, li { max-width: 48rem; }
.muted { color: var(--muted); }
nav ol { margin: .5rem 0; padding-left: 1.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; line-height: 1.35; }
caption { padding: .25rem 0 .5rem; text-align: left; color: var(--muted); }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { background: var(--shade); }
td, td .interval { font-variant-numeric: tabular-nums; }
td.number, th.number { text-align: right; }
table.figures td { overflow-wrap: normal; }
table.figures td.number { white-space: nowrap; }
table.figures th[scope=row] { min-width: 8rem; font-weight: 500; }
.interval { color: var(--muted); font-size: .8125rem; }
.verdict { display: block; font-size: .8125rem; color: var(--muted); }
.faster { color: var(--better); font-weight: 600; }
.slower { color: var(--worse); font-weight: 600; }
figure { margin: 1rem 0 1.75rem; }
figcaption { margin-bottom: .35rem; font-weight: 600; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: .75rem 1rem; }
.panels figure { margin: 0; max-width: 30rem; }
.panels figcaption { font-weight: 500; font-size: .875rem; }
figure svg:not(.swatch) { display: block; width: 100%; height: auto; }
.bars svg:not(.swatch) { max-width: 54rem; min-width: 36rem; }
svg text { font-family: system-ui, sans-serif; }
svg .gridline { stroke-opacity: .3; }
svg .open { fill: none; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .25rem 0 .5rem; padding: 0; list-style: none;
  font-size: .875rem; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.swatch { flex: none; width: 1.5rem; height: 1rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; font-size: .875rem; }
dt { color: var(--muted); }
dd { margin: 0; }
code { font: .8125rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.warnings { padding: .5rem 1rem; border-left: .25rem solid var(--look-1); background: var(--shade); }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
@media print {
  :root { color-scheme: light; --page: #fff; --text: #000; --muted: #444; --line: #bbb; --shade: #f3f3f3;
    --better: #0b6b3a; --worse: #a3231f; --link: #000;
    --look-0: #004488; --look-1: #ddaa33; --look-2: #bb5566; --look-3: #44aa99;
    --look-4: #6f4a9e; --look-5: #88b8e8; --look-6: #7a5c00; --look-7: #999999; }
  @page { margin: 15mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  .scroll { overflow: visible; }
  .bars svg:not(.swatch) { min-width: 0; }
  .panels { grid-template-columns: 1fr 1fr; }
  table { font-size: 7.5pt; width: 100%; }
  th, td { padding: .15rem .35rem; }
  table.figures td.number { white-space: normal; }
  .interval, .verdict { font-size: 7pt; }
  h2, h3, figcaption, caption { break-after: avoid; }
  figure, tr, .warnings { break-inside: avoid; }
  .bars { break-inside: auto; }
  thead { display: table-header-group; }
}
)css";

}  // namespace tierfs::iobench
