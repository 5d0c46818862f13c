"""How a report looks in a browser, light and dark, also to the colour-blind."""

from typing import Final

_LIGHT: Final = """
--paper: #ffffff; --ink: #1c2126; --soft: #5c6670; --line: #e3e6e9; --box: #f5f6f7;
--ok: #0072b2; --ok1: #7fb8d8; --fail: #d98200; --info: #8a3ffc; --bad: #c1272d; --badbox: #fbe9e7;
--band: #f3efe3; --fault: #6b6250; --onfault: #ffffff; --good: #00694b; --goodbox: #e3f3ec;
--warn: #7a5200; --warnbox: #fdf1d8;
--b0: #9ecae9; --b1: #f7c46c; --b2: #a5d8b9; --b3: #e6b3d3; --b4: #cfc4ee; --b5: #d9d38b;
--b6: #f3b39c; --b7: #c4c9cf; --onb: #1c2126;"""

_DARK: Final = """
--paper: #14181c; --ink: #e7eaed; --soft: #9aa5b0; --line: #2a3138; --box: #1c2228;
--ok: #56b4e9; --ok1: #2f6f96; --fail: #f0a83c; --info: #b794ff; --bad: #ff7a70; --badbox: #40211f;
--band: #262418; --fault: #b7a984; --onfault: #14181c; --good: #5fd3a8; --goodbox: #17342a;
--warn: #f0c060; --warnbox: #3a2f14;
--b0: #2b6288; --b1: #7f5a17; --b2: #2c6a49; --b3: #7c3f66; --b4: #574a8c; --b5: #625c1e;
--b6: #86452d; --b7: #4a525b; --onb: #f2f4f6;"""

_RULES: Final = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 22px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 40px 0 8px; padding-bottom: 4px;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 15px; margin: 0; }
p { margin: 6px 0; }
.soft, .caption { color: var(--soft); }
.caption { font-size: 13px; margin: 0 0 4px; max-width: 90ch; }
.verdict { margin: 16px 0; padding: 12px 16px; border-radius: 6px; border-left: 6px solid; }
.verdict b { font-size: 18px; letter-spacing: .02em; }
.verdict.valid { background: var(--goodbox); border-color: var(--good); }
.verdict.valid b { color: var(--good); }
.verdict.invalid { background: var(--badbox); border-color: var(--bad); }
.verdict.invalid b { color: var(--bad); }
.verdict.unknown { background: var(--warnbox); border-color: var(--warn); }
.verdict.unknown b { color: var(--warn); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 10px; }
.tile { background: var(--box); border-radius: 6px; padding: 10px 12px; }
.tile b { display: block; font-size: 19px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
figure { margin: 22px 0 0; }
.wide { overflow-x: auto; }
.wide svg { display: block; width: 100%; min-width: 760px; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--soft);
  margin: 8px 0 0; align-items: center; }
.legend svg { width: 16px; height: 14px; vertical-align: -2px; margin-right: 5px; }
table { border-collapse: collapse; font-size: 14px; margin: 8px 0; }
th, td { text-align: left; padding: 3px 16px 3px 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.yes { color: var(--good); } td.no { color: var(--bad); font-weight: 600; }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--box); padding: 10px 12px; border-radius: 6px; overflow-x: auto;
  margin: 8px 0; }
.anomaly { border-left: 4px solid var(--bad); padding: 2px 0 2px 16px; margin: 22px 0; }
.anomaly.allowed { border-color: var(--line); }
.anomaly h3 { font-size: 16px; }
.case { margin: 14px 0 20px; }
.case > p:first-child { font-weight: 600; }
.case ul { margin: 4px 0; padding-left: 20px; }
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  fill: var(--ink); }
text.tick { fill: var(--soft); font-size: 11px; }
text.label { font-size: 12px; }
text.bad { fill: var(--bad); font-weight: 600; }
text.on-b { fill: var(--onb); font-size: 11px; }
text.on-fault { fill: var(--onfault); font-size: 10.5px; }
text.value { font-size: 11px; }
.phase { stroke: var(--soft); stroke-width: 1; fill: none; }
.beside { display: flex; flex-wrap: wrap; gap: 0 56px; }
.beside section { min-width: 260px; max-width: 100%; flex: 1; }
.grid { stroke: var(--line); stroke-width: 1; fill: none; }
.band { fill: var(--band); }
.mark { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; fill: none; }
.fault { fill: var(--fault); }
.fault.unseen { fill: none; stroke: var(--fault); stroke-width: 1.5; stroke-dasharray: 3 2; }
.area.ok { fill: var(--ok); } .area.fail { fill: var(--fail); } .area.info { fill: var(--info); }
.points { fill: none; stroke-width: 2.4; stroke-linecap: round; }
.points.ok { stroke: var(--ok); }
.points.d1 { stroke: var(--ok1); } .points.d2 { stroke: var(--ok); stroke-opacity: .75; }
.points.fail { stroke: var(--fail); stroke-width: 1.6; }
.points.info { fill: var(--info); }
.line { fill: none; stroke-width: 1.8; } .line.ok { stroke: var(--ok); }
.b { stroke: none; } .b0 { fill: var(--b0); } .b1 { fill: var(--b1); } .b2 { fill: var(--b2); }
.b3 { fill: var(--b3); } .b4 { fill: var(--b4); } .b5 { fill: var(--b5); } .b6 { fill: var(--b6); }
.b7 { fill: var(--b7); }
.no-leader { fill: var(--bad); }
.acks { stroke: var(--ok); stroke-width: 2; fill: none; }
.cell { fill: var(--box); stroke: var(--line); }
.cell.differs { fill: var(--badbox); stroke: var(--bad); }
.cell.missing { fill: none; stroke: var(--bad); stroke-dasharray: 3 2; }
.break { stroke: var(--soft); stroke-dasharray: 1 3; fill: none; }
.at.committed { fill: var(--ok); }
.at.told { fill: var(--paper); stroke: var(--ok); stroke-width: 1.6; }
.ring { fill: none; stroke: var(--bad); stroke-width: 2; }
.bad-column { fill: var(--badbox); }
.bar.ok { fill: var(--ok); } .bar.fail { fill: var(--fail); } .bar.info { fill: var(--info); }
.bar.proof { stroke: var(--bad); stroke-width: 2.5; }
@media print { .wide svg { min-width: 0; } h2, figure, .anomaly { break-inside: avoid; } }
"""

STYLE: Final = (
    f":root {{ color-scheme: light dark; {_LIGHT} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n{_RULES}"
)
