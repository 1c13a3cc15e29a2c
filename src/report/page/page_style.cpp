#include "report/page/page_data.hpp"

namespace cohort {

// Hues after M. Okabe and K. Ito, "Color Universal Design", 2008, with yellow and sky darker on
// white and all lighter on black, so that each is told apart from the paper.
std::string page_style() {
    return R"(
:root { color-scheme: light dark;
  --paper: #ffffff; --ink: #1c2128; --muted: #57606a; --rule: #d0d7de; --soft: #f3f5f7;
  --best: #ddf1e4; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b0568a; --c4: #a87400;
  --c5: #3a97cf; --c6: #1c2128; --wait: #d8dde3; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #0f1318; --ink: #e6edf3; --muted: #9aa5b1; --rule: #343c46; --soft: #1a2027;
  --best: #173a29; --c0: #5aa9e6; --c1: #ff8b4a; --c2: #35c79a; --c3: #e79bc4; --c4: #f0b840;
  --c5: #9ad8ff; --c6: #e6edf3; --wait: #343c46; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 4rem; max-width: 90rem;
  background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .4rem; }
p { max-width: 50rem; margin: .4rem 0 .8rem; }
.verdict { font-size: 1.1rem; max-width: 70rem; }
.facts, figcaption, .note { color: var(--muted); font-size: .9rem; }
.scroll { overflow-x: auto; margin: 1.2rem 0; border: 1px solid var(--rule); border-radius: 6px; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .5rem .75rem; color: var(--muted); caption-side: top; }
th, td { padding: .35rem .6rem; text-align: right; vertical-align: top;
  border-top: 1px solid var(--rule); }
caption span { display: block; position: sticky; left: .75rem;
  max-width: min(100%, calc(100vw - 4rem)); }
th[scope=col] { font-weight: 600; background: var(--soft); min-width: 5.5rem; }
th[scope=row], th[scope=col]:first-child { text-align: left; position: sticky; left: 0;
  background: var(--soft); white-space: nowrap; }
th[scope=row] { font-weight: 600; background: var(--paper); }
td .median { font-weight: 600; white-space: nowrap; }
.spread { display: block; color: var(--muted); font-size: .8rem; white-space: nowrap; }
.best { background: var(--best); }
.never .median { font-weight: 400; }
.mark { text-decoration: none; color: var(--c2); }
.oracle .spread { white-space: normal; }
.oracle td, .oracle th { border-top: 2px solid var(--muted); }
.role { font-size: .7rem; font-weight: 400; color: var(--muted); border: 1px solid var(--rule);
  border-radius: 3px; padding: 0 .25rem; }
.grid-of { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
  gap: .5rem 1.5rem; }
figure { margin: .8rem 0; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 10px system-ui, sans-serif; fill: var(--muted); font-variant-numeric: tabular-nums; }
svg text.what { fill: var(--ink); }
svg .axis { stroke: var(--muted); stroke-width: 1; }
svg .grid { stroke: var(--rule); stroke-width: .6; }
svg .target { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 2 3; }
svg .change { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 4 2; }
svg polyline { fill: none; stroke-width: 1.7; stroke: currentColor; stroke-linejoin: round; }
svg .ours polyline { stroke-width: 3; }
svg .band { fill: currentColor; fill-opacity: .13; }
.many .band { fill-opacity: .04; } .many .ours .band { fill-opacity: .13; }
svg g:hover > .band { fill-opacity: .3; } svg g:hover > polyline { stroke-width: 3.5; }
svg .bar, svg .dot { fill: currentColor; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.c6 { color: var(--c6); }
.d1 polyline { stroke-dasharray: 7 3; } .d2 polyline { stroke-dasharray: 2 3; }
.d3 polyline { stroke-dasharray: 9 3 2 3; }
.k0 { fill: var(--c1); } .k1 { fill: var(--c4); } .k2 { fill: var(--c0); } .k3 { fill: var(--c2); }
.k4 { fill: var(--wait); } .k5 { fill: var(--c3); } .k6 { fill: var(--ink); }
.e0 { fill: var(--c1); } .e1 { fill: var(--c0); } .e2 { fill: var(--c4); } .e3 { fill: var(--c3); }
.e4 { fill: var(--muted); }
svg .plan rect { fill: currentColor; fill-opacity: .4; stroke: var(--paper); stroke-width: .8; }
svg .plan:hover rect { fill-opacity: .7; }
td.words { text-align: left; min-width: 12rem; }
.legend { list-style: none; padding: 0; margin: .6rem 0; display: flex; flex-wrap: wrap;
  gap: .2rem 1.2rem; font-size: .85rem; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.swatch { width: 28px; height: 10px; flex: none; }
.narrow { max-width: 46rem; } .wide { overflow-x: auto; } .wide svg { min-width: 40rem; }
details { margin: .4rem 0; } summary { cursor: pointer; padding: .2rem 0; }
.commands { padding-left: 1.2rem; font-size: .85rem; } .commands li { margin: .3rem 0; }
code { font: .85em ui-monospace, monospace; overflow-wrap: anywhere; background: var(--soft);
  padding: .1em .3em; border-radius: 3px; }
@media print { details > * { display: block; } }
)";
}

}  // namespace cohort
