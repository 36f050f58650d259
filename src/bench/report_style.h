// SPDX-License-Identifier: Apache-2.0
//
// The look of the report's page.  Plots carry their own, see svg.cc.
#pragma once

namespace viaduct::bench {

inline constexpr const char* kReportStyle = R"(
:root { color-scheme: light dark; --text: #1c2126; --quiet: #555f69; --line: #d5dae0; --page: #ffffff;
  --raised: #f5f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8ec; --quiet: #a3adb8; --line: #3a424b; --page: #15191d; --raised: #1e2429; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); line-height: 1.5;
  font: 1rem/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 78rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.75rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 0.5rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.25rem 1rem; margin: 0 0 1rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.9em; }
p { max-width: 48rem; }
.scroll { overflow-x: auto; margin: 0 0 1rem; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding: 0.25rem 0; position: sticky; left: 0; }
th, td { padding: 0.25rem 0.5rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
tbody th { font-weight: 400; }
.text { text-align: left; }
figure { margin: 0; }
figure svg { display: block; width: 100%; max-width: 36rem; height: auto; }
.pair { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.5rem 2rem; margin: 0 0 1.5rem; }
@media (min-width: 60rem) {
  .pair { grid-template-columns: minmax(0, 36rem) minmax(0, 1fr); align-items: start; }
}
summary { cursor: pointer; padding: 0.5rem 0; }
)";

} // namespace viaduct::bench
