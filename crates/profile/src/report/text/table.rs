//! The ranked rows.

use super::{BOLD, DIM, INDENT, Page, REMOTE, ROLE, WIDE, percent};
use crate::merge::{FlowKey, RoleId, Tally};
use crate::report::By;
use crate::report::fit::{cut_middle, left, right, width, wrap};
use crate::report::rows::{Key, Row};
use crate::report::units::{bytes, count, duration, share};
use crate::site::Site;
use std::collections::HashMap;

impl Page<'_> {
    pub(super) fn table(&self, lines: &mut Vec<String>) {
        let report = self.report;
        if report.rows.is_empty() {
            lines.extend(wrap(&self.nothing(), self.columns));
            lines.push(String::new());
            return;
        }
        let what = match report.options.by {
            By::Flow => "flow",
            By::AllocSite => "allocation site",
            By::FreeSite => "free site",
            By::Role => "role",
        };
        let filtered = if self.filtered() { ", filtered" } else { "" };
        let title = format!("Remote frees by {what}{filtered}");
        lines.push(self.paint(BOLD, &cut_middle(&title, self.columns)));
        lines.push(String::new());

        let cells: Vec<Vec<String>> = report.rows.iter().map(|r| self.cells(r)).collect();
        let heads = self.heads();
        let widest = |(i, head): (usize, &&str)| {
            let cells = cells.iter().map(|c| width(&c[i]));
            cells.max().unwrap_or(0).max(width(head))
        };
        let widths: Vec<usize> = heads.iter().enumerate().map(widest).collect();
        let shown = report.rows.len();
        let number = width(&shown.to_string()).max(2);
        let figures: usize = widths.iter().map(|w| w + 2).sum();
        let wide = self.columns >= WIDE && number + figures + 16 <= self.columns;
        if wide {
            let heads = heads.iter().zip(&widths);
            let heads: String = heads.map(|(h, w)| format!("  {}", right(h, *w))).collect();
            let line = format!("{}{heads}  THREADS", right("#", number));
            lines.push(self.paint(DIM, &line));
        }
        for (i, (row, cells)) in report.rows.iter().zip(&cells).enumerate() {
            let place = right(&(i + 1).to_string(), number);
            let place = self.paint(DIM, &place);
            if wide {
                let room = self.columns.saturating_sub(number + figures + 2);
                self.wide_row(row, cells, &widths, &place, room, lines);
            } else {
                self.narrow_row(row, cells, &place, lines);
            }
            match &row.key {
                Key::Flow { alloc, free, .. } => {
                    self.labelled("alloc", alloc, lines);
                    self.labelled("free", free, lines);
                }
                Key::Alloc(site) => self.labelled("alloc", site, lines),
                Key::Free(site) => self.labelled("free", site, lines),
                Key::Role(..) => {}
            }
            if report.options.full_stacks {
                self.stacks(row, lines);
            }
            if report.options.by != By::Role || report.options.full_stacks {
                lines.push(String::new());
            }
        }
        if report.options.by == By::Role && !report.options.full_stacks {
            lines.push(String::new());
        }
        self.hidden(what, lines);
    }

    /// What the table leaves out.
    fn hidden(&self, what: &str, lines: &mut Vec<String>) {
        let report = self.report;
        let more = report.matched.saturating_sub(report.rows.len());
        if more == 0 {
            return;
        }
        let plural = if more == 1 { "" } else { "s" };
        let of = match report.hidden_frees {
            0 => String::new(),
            n => format!(
                " with {} of the remote frees",
                share(n, report.totals().frees_remote)
            ),
        };
        let text = format!(
            "{} more {what}{plural}{of}; --top {} shows them",
            count(more as u64),
            report.matched
        );
        for line in wrap(&text, self.columns) {
            lines.push(self.paint(DIM, &line));
        }
        lines.push(String::new());
    }

    fn filtered(&self) -> bool {
        let o = &self.report.options;
        o.thread.is_some() || o.site.is_some() || o.min_bytes > 0
    }

    fn nothing(&self) -> String {
        let report = self.report;
        if report.totals().frees_remote > 0 {
            let why = match report.matched {
                0 if self.filtered() => "No flow matches the filters.",
                // Those without room in the file.
                0 => "No remote free has a site in the profile.",
                _ => "No row was asked for.",
            };
            return why.into();
        }
        if report.inputs.iter().any(|i| i.incomplete) {
            return "Memory freed away from home: none in the part that could be read.".into();
        }
        "No memory was freed away from home.".into()
    }

    fn heads(&self) -> &'static [&'static str] {
        match self.report.options.by {
            By::AllocSite => &[
                "FREES", "SHARE", "BYTES", "MEDIAN", "P99", "ALLOCS", "REMOTE",
            ],
            _ => &["FREES", "SHARE", "BYTES", "MEDIAN", "P99"],
        }
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let life = |q| {
            let ns = row.life.quantile(&self.report.merged.clocks, q);
            ns.map_or("–".into(), duration)
        };
        let mut cells = vec![
            count(row.freed.count) + &error(&row.freed),
            share(row.freed.count, self.report.totals().frees_remote),
            bytes(row.freed.bytes),
            life(0.5),
            life(0.99),
        ];
        if self.report.options.by == By::AllocSite {
            cells.push(count(row.allocated.count));
            cells.push(share(row.freed.count, row.allocated.count));
        }
        cells
    }

    fn cell(&self, column: usize, text: &str) -> String {
        match column {
            0 => self.paint(BOLD, text),
            1 => self.paint(REMOTE, text),
            _ => text.to_owned(),
        }
    }

    fn wide_row(
        &self,
        row: &Row,
        cells: &[String],
        widths: &[usize],
        place: &str,
        room: usize,
        lines: &mut Vec<String>,
    ) {
        let cells = cells.iter().zip(widths).enumerate();
        let figures: String = cells
            .map(|(i, (c, w))| format!("  {}", self.cell(i, &right(c, *w))))
            .collect();
        lines.push(format!("{place}{figures}  {}", self.threads(row, room)));
    }

    fn narrow_row(&self, row: &Row, cells: &[String], place: &str, lines: &mut Vec<String>) {
        let indent = " ".repeat(INDENT);
        let room = self.columns - INDENT;
        let (frees, part) = (self.cell(0, &cells[0]), self.cell(1, &cells[1]));
        lines.push(format!("{place}  {frees}  {part}  {}", cells[2]));
        let lived = format!("lived {}, p99 {}", cells[3], cells[4]);
        lines.push(format!("{indent}{}", cut_middle(&lived, room)));
        if let [_, _, _, _, _, allocs, remote] = cells {
            let allocated = format!("{remote} of {allocs} allocations");
            lines.push(format!("{indent}{}", cut_middle(&allocated, room)));
        }
        lines.push(format!("{indent}{}", self.threads(row, room)));
    }

    /// The roles of a row in at most `room` columns.
    fn threads(&self, row: &Row, room: usize) -> String {
        match &row.key {
            Key::Flow {
                alloc_role,
                free_role,
                ..
            }
            | Key::Role(alloc_role, free_role) => self.pair(*alloc_role, *free_role, room),
            Key::Alloc(_) | Key::Free(_) => self.pairs(row, room),
        }
    }

    fn pair(&self, alloc: RoleId, free: RoleId, room: usize) -> String {
        let (alloc, free) = (self.report.role(alloc), self.report.role(free));
        let room = room.saturating_sub(3);
        // What the shorter one leaves over is the longer one's.
        let half = (room / 2).max(room.saturating_sub(width(free)));
        let alloc = cut_middle(alloc, half);
        let free = cut_middle(free, room.saturating_sub(width(&alloc)));
        format!("{} → {}", self.paint(ROLE, &alloc), self.paint(ROLE, &free))
    }

    /// The pairs of roles in a row, most frees first, as many as there is room for.
    fn pairs(&self, row: &Row, room: usize) -> String {
        let mut pairs: HashMap<(RoleId, RoleId), u64> = HashMap::new();
        for key in &row.flows {
            let n = self.frees(key);
            let sum = pairs.entry((key.alloc_role, key.free_role)).or_default();
            *sum = sum.saturating_add(n);
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(pair, n)| (std::cmp::Reverse(*n), *pair));
        let Some(((alloc, free), n)) = pairs.first() else {
            return "–".into();
        };
        let rest = match pairs.len() {
            1 => String::new(),
            all => format!(" {}, {} more", share(*n, row.freed.count), all - 1),
        };
        let pair = self.pair(*alloc, *free, room.saturating_sub(width(&rest)));
        format!("{pair}{rest}")
    }

    /// Remote frees of a flow.
    pub(super) fn frees(&self, key: &FlowKey) -> u64 {
        let sums = self.report.merged.flows.get(key);
        sums.map_or(0, |s| s.freed.count)
    }

    /// `alloc  function  file:line`, on two lines where it is narrow.
    fn labelled(&self, label: &str, site: &Site, lines: &mut Vec<String>) {
        let label = self.paint(DIM, &left(label, 5));
        let indent = " ".repeat(INDENT);
        let room = self.columns - INDENT - 7;
        let (name, place) = self.site(site);
        if self.columns >= WIDE {
            let site = self.beside(&name, &place, room);
            lines.push(format!("{indent}{label}  {site}"));
            return;
        }
        lines.push(format!("{indent}{label}  {}", cut_middle(&name, room)));
        if !place.is_empty() {
            let place = self.paint(DIM, &cut_middle(&place, room));
            lines.push(format!("{indent}{}{place}", " ".repeat(7)));
        }
    }
}

/// ` ±2.1%` of a sampled figure.
fn error(tally: &Tally) -> String {
    match tally.error() {
        Some(e) if tally.count > 0 => format!(" ±{}", percent(e / tally.count as f64)),
        _ => String::new(),
    }
}
