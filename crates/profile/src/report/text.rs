//! The report for people.

use super::fit::{cut_middle, left, right, source_path, width, wrap};
use super::rows::{Key, Row};
use super::units::{bytes, count, duration, share};
use super::{By, Report};
use crate::merge::{End, FlowKey, RoleId, StackId, Tally};
use crate::site::Site;
use crate::symbols::{Symbol, shorten};
use anstyle::{AnsiColor, Style};
use std::collections::HashMap;
use std::io::{self, Write};

/// How the text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns; what is outside of 40 to 200 is taken as the nearer of the two.
    pub width: usize,
    /// ANSI colours.
    pub colour: bool,
}

impl Default for TextStyle {
    fn default() -> Self {
        TextStyle {
            width: 100,
            colour: false,
        }
    }
}

/// From so many columns on, a row's figures stand in columns, and a function beside its line.
const WIDE: usize = 72;
const INDENT: usize = 4;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ROLE: Style = AnsiColor::Cyan.on_default();
const REMOTE: Style = AnsiColor::Yellow.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default();

pub(super) fn write(report: &Report, out: &mut dyn Write, style: &TextStyle) -> io::Result<()> {
    let working_dir = std::env::current_dir().map(|d| d.display().to_string());
    let page = Page {
        report,
        columns: style.width.clamp(40, 200),
        colour: style.colour,
        working_dir: working_dir.unwrap_or_default(),
    };
    let mut lines = Vec::new();
    page.head(&mut lines);
    page.totals(&mut lines);
    page.asides(&mut lines);
    page.warnings(&report.warnings[..report.damage], &mut lines);
    page.table(&mut lines);
    page.warnings(&report.warnings[report.damage..], &mut lines);
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    for line in lines {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

struct Page<'a> {
    report: &'a Report,
    columns: usize,
    colour: bool,
    working_dir: String,
}

impl Page<'_> {
    fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// The program and the run.
    fn head(&self, lines: &mut Vec<String>) {
        let inputs = &self.report.inputs;
        let (title, mut facts) = match &inputs[..] {
            [one] => {
                let title = if one.command.is_empty() {
                    &one.path
                } else {
                    &one.command
                };
                let mut facts = vec![format!("pid {}", one.pid)];
                if one.duration_ns > 0 {
                    facts.push(duration(one.duration_ns as f64));
                }
                (title.clone(), facts)
            }
            many => {
                let mut commands: Vec<_> = many.iter().map(|i| i.command.as_str()).collect();
                commands.sort_unstable();
                commands.dedup();
                (
                    commands.join(" + "),
                    vec![format!("{} profiles", many.len())],
                )
            }
        };
        match inputs.iter().map(|i| i.sample_bytes).max() {
            Some(0) | None => facts.push("every event".into()),
            Some(n) => facts.push(format!("one sample every {}", bytes(n))),
        }
        lines.push(self.paint(BOLD, &cut_middle(&title, self.columns)));
        for line in wrap(&facts.join(" · "), self.columns) {
            lines.push(self.paint(DIM, &line));
        }
        lines.push(String::new());
    }

    fn totals(&self, lines: &mut Vec<String>) {
        let t = self.report.totals();
        let error = |e: Option<f64>, n: u64| match e {
            Some(e) if n > 0 && e > 0.0 => format!(" ±{}", percent(e / n as f64)),
            _ => String::new(),
        };
        let errors = t.errors;
        let frees = t.frees();
        let mut rows = vec![
            (
                "Allocations",
                count(t.allocations) + &error(errors.map(|e| e.allocations), t.allocations),
                String::new(),
                bytes(t.allocated_bytes),
                Style::new(),
            ),
            (
                "Home frees",
                count(t.frees_home) + &error(errors.map(|e| e.frees_home), t.frees_home),
                share(t.frees_home, frees),
                bytes(t.frees_home_bytes),
                Style::new(),
            ),
            (
                "Remote frees",
                count(t.frees_remote) + &error(errors.map(|e| e.frees_remote), t.frees_remote),
                share(t.frees_remote, frees),
                bytes(t.frees_remote_bytes),
                if t.frees_remote > 0 {
                    REMOTE
                } else {
                    Style::new()
                },
            ),
            (
                "Unknown frees",
                count(t.frees_unknown),
                share(t.frees_unknown, frees),
                String::new(),
                Style::new(),
            ),
            (
                if t.live_at_exit {
                    "Live at exit"
                } else {
                    "Still live"
                },
                count(t.live),
                String::new(),
                bytes(t.live_bytes),
                Style::new(),
            ),
        ];
        if t.frees_unknown == 0 {
            rows.remove(3);
        }
        let widest = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
        let label = widest(&mut rows.iter().map(|r| width(r.0))) + 1;
        let a = widest(&mut rows.iter().map(|r| width(&r.1)));
        let b = widest(&mut rows.iter().map(|r| width(&r.2)));
        let c = widest(&mut rows.iter().map(|r| width(&r.3)));

        self.roles(label, lines);
        let one_line = label + a + b + c + 4 <= self.columns;
        for (name, n, part, size, style) in &rows {
            let name = left(name, label);
            let figures = format!("{}  {}", right(n, a), right(part, b));
            if one_line {
                let figures = format!("{figures}  {}", right(size, c));
                lines.push(format!("{name}{}", self.paint(*style, &figures)));
            } else {
                lines.push(format!("{name}{}", self.paint(*style, &figures)));
                if !size.is_empty() {
                    let size = right(size, a);
                    lines.push(format!(
                        "{}{}",
                        " ".repeat(label),
                        self.paint(*style, &size)
                    ));
                }
            }
        }
        if !t.live_at_exit {
            let why = self.why_not_exit();
            for line in wrap(&why, self.columns.saturating_sub(2)) {
                lines.push(format!("  {}", self.paint(DIM, &line)));
            }
        }
        lines.push(String::new());
    }

    /// Threads by role, most first, in as many lines as they take.
    fn roles(&self, label: usize, lines: &mut Vec<String>) {
        let mut roles: Vec<_> = self
            .report
            .merged
            .roles
            .iter()
            .filter(|r| r.threads > 0)
            .collect();
        roles.sort_by(|a, b| (b.main, b.threads, &a.name).cmp(&(a.main, a.threads, &b.name)));
        let threads = count(self.report.totals().threads);
        let indent = label.min(self.columns / 2);
        let room = self.columns - indent;
        let mut line = left("Threads", indent);
        line.push_str(&threads);
        let mut used = width(&threads);
        let shown = 12;
        let more = roles.len().saturating_sub(shown);
        let items = roles.iter().take(shown).map(|r| {
            let n = if r.main && r.threads == 1 {
                String::new()
            } else {
                format!(" {}", count(r.threads))
            };
            (
                cut_middle(&r.name, room.saturating_sub(width(&n) + 3).max(8)),
                n,
            )
        });
        let rest = (more > 0).then(|| (format!("and {more} more roles"), String::new()));
        for (i, (name, n)) in items.chain(rest).enumerate() {
            let gap = if i == 0 { "   " } else { " · " };
            let item = width(&name) + width(&n);
            if used + width(gap) + item > room {
                lines.push(std::mem::take(&mut line));
                line = " ".repeat(indent);
                used = 0;
            } else {
                line.push_str(&self.paint(DIM, gap));
                used += width(gap);
            }
            line.push_str(&self.paint(ROLE, &name));
            line.push_str(&n);
            used += item;
        }
        lines.push(line);
    }

    fn why_not_exit(&self) -> String {
        let cut = self.report.inputs.iter().any(|i| i.truncated);
        if cut {
            "(still live when the recording stopped: the profile is cut, frees may be missing)"
                .into()
        } else {
            "(still live when the recording stopped: the program runs, or was killed)".into()
        }
    }

    /// Counts that are usually zero, and cut stacks.
    fn asides(&self, lines: &mut Vec<String>) {
        let t = self.report.totals();
        let mut facts: Vec<String> = [
            (t.failed, "failed allocations"),
            (t.late, "events after a thread's end"),
            (t.reentrant, "calls from inside other hooked calls"),
            (t.untracked, "untracked allocations"),
            (t.lost, "events without room"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", count(*n)))
        .collect();
        let mut cuts: Vec<_> = self.report.cuts.iter().filter(|(_, n)| **n > 0).collect();
        cuts.sort_by_key(|(module, n)| (std::cmp::Reverse(**n), **module));
        if !cuts.is_empty() {
            let all: u64 = cuts.iter().fold(0, |sum, (_, n)| sum.saturating_add(**n));
            let modules: Vec<_> = cuts
                .iter()
                .take(4)
                .map(|(module, n)| {
                    let name = self.report.module(**module).map_or("?", |m| m.short());
                    format!("{name} {}", share(**n, t.allocations))
                })
                .collect();
            facts.push(format!(
                "cut stacks: {} of allocations ({})",
                share(all, t.allocations),
                modules.join(", ")
            ));
        }
        if facts.is_empty() {
            return;
        }
        for line in wrap(&facts.join(" · "), self.columns) {
            lines.push(self.paint(DIM, &line));
        }
        lines.push(String::new());
    }

    fn warnings(&self, warnings: &[String], lines: &mut Vec<String>) {
        for warning in warnings {
            let text = wrap(warning, self.columns.saturating_sub(2));
            for (i, line) in text.iter().enumerate() {
                let mark = if i == 0 { "! " } else { "  " };
                lines.push(format!("{}{line}", self.paint(WARN, mark)));
            }
        }
        if !warnings.is_empty() {
            lines.push(String::new());
        }
    }

    fn table(&self, lines: &mut Vec<String>) {
        let report = self.report;
        if report.rows.is_empty() {
            lines.push(self.nothing());
            lines.push(String::new());
            return;
        }
        let what = match report.options.by {
            By::Flow => "flow",
            By::AllocSite => "allocation site",
            By::FreeSite => "free site",
            By::Role => "role",
        };
        let shown = report.rows.len();
        let of = if shown < report.matched {
            format!(": top {shown} of {}", count(report.matched as u64))
        } else {
            String::new()
        };
        let filtered = if self.filtered() { " (filtered)" } else { "" };
        lines.push(self.paint(
            BOLD,
            &cut_middle(
                &format!("Remote frees by {what}{of}{filtered}"),
                self.columns,
            ),
        ));
        lines.push(String::new());

        let cells: Vec<Vec<String>> = report.rows.iter().map(|r| self.cells(r)).collect();
        let heads = self.heads();
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(i, h)| {
                cells
                    .iter()
                    .map(|c| width(&c[i]))
                    .max()
                    .unwrap_or(0)
                    .max(width(h))
            })
            .collect();
        let number = width(&shown.to_string()).max(2);
        let figures: usize = widths.iter().map(|w| w + 2).sum();
        let wide = self.columns >= WIDE && number + figures + 16 <= self.columns;
        if wide {
            let heads = heads
                .iter()
                .zip(&widths)
                .map(|(h, w)| format!("  {}", right(h, *w)));
            let last = match report.options.by {
                By::AllocSite | By::FreeSite => "  SITE",
                _ => "  THREADS",
            };
            let line = format!("{}{}{last}", right("#", number), heads.collect::<String>());
            lines.push(self.paint(DIM, &line));
        }
        for (i, (row, cells)) in report.rows.iter().zip(&cells).enumerate() {
            let number = self.paint(DIM, &right(&(i + 1).to_string(), number));
            self.row(
                row,
                cells,
                wide.then_some(&widths[..]),
                &number,
                figures,
                lines,
            );
            if report.options.by != By::Role && i + 1 < shown {
                lines.push(String::new());
            }
        }
        lines.push(String::new());
    }

    fn filtered(&self) -> bool {
        let o = &self.report.options;
        o.thread.is_some() || o.site.is_some() || o.min_bytes > 0
    }

    fn nothing(&self) -> String {
        if self.filtered() && self.report.totals().frees_remote > 0 {
            "No flow matches the filters.".into()
        } else {
            "No memory was freed away from home.".into()
        }
    }

    fn heads(&self) -> &'static [&'static str] {
        match self.report.options.by {
            By::AllocSite => &["FREES", "SHARE", "BYTES", "MEDIAN", "P99", "OF ITS OWN"],
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
            cells.push(share(row.freed.count, row.allocated.count));
        }
        cells
    }

    fn row(
        &self,
        row: &Row,
        cells: &[String],
        widths: Option<&[usize]>,
        number: &str,
        figures: usize,
        lines: &mut Vec<String>,
    ) {
        let bold = |i: usize, cell: &str| match i {
            0 => self.paint(BOLD, cell),
            1 => self.paint(REMOTE, cell),
            _ => cell.to_owned(),
        };
        let indent = " ".repeat(INDENT);
        match widths {
            Some(widths) => {
                let cells = cells.iter().zip(widths).enumerate();
                let figures_line: String = cells
                    .map(|(i, (c, w))| format!("  {}", bold(i, &right(c, *w))))
                    .collect();
                let room = self.columns.saturating_sub(figures + 4);
                let last = match &row.key {
                    Key::Flow {
                        alloc_role,
                        free_role,
                        ..
                    }
                    | Key::Role(alloc_role, free_role) => {
                        self.roles_of(*alloc_role, *free_role, room)
                    }
                    Key::Alloc(site) | Key::Free(site) => self.site(site, room),
                };
                lines.push(format!("{number}{figures_line}  {last}"));
            }
            None => {
                let first = format!(
                    "{}  {}  {}",
                    bold(0, &cells[0]),
                    bold(1, &cells[1]),
                    cells[2]
                );
                lines.push(format!("{number}  {first}"));
                let lived = format!("lived {}, p99 {}", cells[3], cells[4]);
                lines.push(format!(
                    "{indent}{}",
                    cut_middle(&lived, self.columns - INDENT)
                ));
                let room = self.columns - INDENT;
                if let Key::Flow {
                    alloc_role,
                    free_role,
                    ..
                }
                | Key::Role(alloc_role, free_role) = &row.key
                {
                    lines.push(format!(
                        "{indent}{}",
                        self.roles_of(*alloc_role, *free_role, room)
                    ));
                }
            }
        }
        let room = self.columns - INDENT;
        match &row.key {
            Key::Flow { alloc, free, .. } => {
                self.labelled("alloc", alloc, lines);
                self.labelled("free", free, lines);
            }
            Key::Alloc(site) | Key::Free(site) => {
                if widths.is_none() {
                    lines.push(format!("{indent}{}", self.site(site, room)));
                }
                let roles = self.role_pairs(row);
                for line in wrap(&roles, room) {
                    lines.push(format!("{indent}{}", self.paint(ROLE, &line)));
                }
            }
            Key::Role(..) => {}
        }
        if self.report.options.full_stacks {
            self.stacks(row, lines);
        }
    }

    fn roles_of(&self, alloc: RoleId, free: RoleId, room: usize) -> String {
        let (alloc, free) = (self.report.role(alloc), self.report.role(free));
        let room = room.saturating_sub(3);
        // What the shorter one leaves over is the longer one's.
        let a = width(alloc).min((room / 2).max(room.saturating_sub(width(free))));
        let alloc = cut_middle(alloc, a);
        let free = cut_middle(free, room - width(&alloc));
        format!("{} → {}", self.paint(ROLE, &alloc), self.paint(ROLE, &free))
    }

    /// The role pairs of a row, most frees first.
    fn role_pairs(&self, row: &Row) -> String {
        let mut pairs: HashMap<(RoleId, RoleId), u64> = HashMap::new();
        for key in &row.flows {
            let n = self
                .report
                .merged
                .flows
                .get(key)
                .map_or(0, |s| s.freed.count);
            let sum = pairs.entry((key.alloc_role, key.free_role)).or_default();
            *sum = sum.saturating_add(n);
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(pair, n)| (std::cmp::Reverse(*n), *pair));
        let shown = pairs.iter().take(3).map(|((a, f), n)| {
            let part = if pairs.len() > 1 {
                format!(" {}", share(*n, row.freed.count))
            } else {
                String::new()
            };
            format!("{} → {}{part}", self.report.role(*a), self.report.role(*f))
        });
        let mut shown: Vec<_> = shown.collect();
        if pairs.len() > 3 {
            shown.push(format!("and {} more", pairs.len() - 3));
        }
        shown.join(" · ")
    }

    /// `alloc  function  file:line`, on two lines where it is narrow.
    fn labelled(&self, label: &str, site: &Site, lines: &mut Vec<String>) {
        let label_text = self.paint(DIM, &left(label, 5));
        let indent = " ".repeat(INDENT);
        let room = self.columns - INDENT - 7;
        if self.columns >= WIDE {
            lines.push(format!("{indent}{label_text}  {}", self.site(site, room)));
            return;
        }
        let (name, place) = self.site_parts(site);
        lines.push(format!("{indent}{label_text}  {}", cut_middle(&name, room)));
        if !place.is_empty() {
            let place = self.paint(DIM, &cut_middle(&place, room));
            lines.push(format!("{indent}{}{place}", " ".repeat(7)));
        }
    }

    fn site(&self, site: &Site, room: usize) -> String {
        let (name, place) = self.site_parts(site);
        self.beside(&name, &place, room)
    }

    /// A name and a place in `room` columns; the longer one gives way.
    fn beside(&self, name: &str, place: &str, room: usize) -> String {
        if place.is_empty() {
            return cut_middle(name, room);
        }
        let place = cut_middle(
            place,
            (room * 9 / 20).max(room.saturating_sub(width(name) + 2)),
        );
        let name = cut_middle(name, room.saturating_sub(width(&place) + 2));
        format!("{name}  {}", self.paint(DIM, &place))
    }

    fn site_parts(&self, site: &Site) -> (String, String) {
        match site {
            Site::None => ("(no stack)".into(), String::new()),
            Site::Function {
                function,
                file,
                line,
                module,
            } => (
                shorten(function),
                self.place(file.as_deref(), *line, *module),
            ),
            Site::Address { module, address } => (self.address(*module, *address), String::new()),
        }
    }

    fn address(&self, module: u32, address: u64) -> String {
        let name = self.report.module(module).map_or("?", |m| m.short());
        format!("{name}+{address:#x}")
    }

    /// `file:line`, or the module where the line is not known.
    fn place(&self, file: Option<&str>, line: Option<u32>, module: u32) -> String {
        match (file, line) {
            (Some(file), Some(line)) => format!("{}:{line}", source_path(file, &self.working_dir)),
            (Some(file), None) => source_path(file, &self.working_dir),
            _ => self
                .report
                .module(module)
                .map_or("?", |m| m.short())
                .to_owned(),
        }
    }

    /// The whole stacks of the row's most frequent flow.
    fn stacks(&self, row: &Row, lines: &mut Vec<String>) {
        let Some(first) = row.flows.first() else {
            return;
        };
        let indent = " ".repeat(INDENT);
        if row.flows.len() > 1 {
            let n = self
                .report
                .merged
                .flows
                .get(first)
                .map_or(0, |s| s.freed.count);
            let text = format!(
                "the most frequent of {} pairs of stacks, {} of these frees",
                count(row.flows.len() as u64),
                share(n, row.freed.count)
            );
            for line in wrap(&text, self.columns - INDENT) {
                lines.push(format!("{indent}{}", self.paint(DIM, &line)));
            }
        }
        let FlowKey {
            alloc_stack,
            free_stack,
            ..
        } = *first;
        for (title, stack) in [("allocated by", alloc_stack), ("freed by", free_stack)] {
            lines.push(format!("{indent}{}", self.paint(BOLD, title)));
            self.stack(stack, lines);
        }
    }

    fn stack(&self, stack: StackId, lines: &mut Vec<String>) {
        let indent = " ".repeat(INDENT + 2);
        let room = self.columns - INDENT - 2;
        let stacks = &self.report.merged.stacks;
        for frame in stacks.frames(stack) {
            let symbols = self.report.symbolizer.answered(frame);
            if symbols.is_empty() {
                let address = self.address(frame.module, frame.address.wrapping_sub(1));
                lines.push(format!("{indent}{}", cut_middle(&address, room)));
            }
            for symbol in symbols {
                lines.push(format!(
                    "{indent}{}",
                    self.symbol(symbol, frame.module, room)
                ));
            }
        }
        let end = match stacks.end(stack) {
            None => "(no stack)",
            Some((End::Whole, _)) => return,
            Some((End::Cut, _)) => "(cut: could not be followed further)",
            Some((End::Deep, _)) => "(cut: the depth limit, see --depth)",
            Some((End::Signal, _)) => "(signal)",
            Some((End::Damaged, _)) => "(the rest is damaged in the profile)",
        };
        lines.push(format!(
            "{indent}{}",
            self.paint(DIM, &cut_middle(end, room))
        ));
    }

    fn symbol(&self, symbol: &Symbol, module: u32, room: usize) -> String {
        let function = symbol.function.as_deref().map_or("?".into(), shorten);
        let place = self.place(symbol.file.as_deref(), symbol.line, module);
        if symbol.inlined {
            let mark = " (inlined)";
            let body = self.beside(&function, &place, room.saturating_sub(width(mark)));
            format!("{body}{}", self.paint(DIM, mark))
        } else {
            self.beside(&function, &place, room)
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

fn percent(part: f64) -> String {
    if part >= 0.0995 {
        format!("{:.0}%", part * 100.0)
    } else {
        format!("{:.1}%", part * 100.0)
    }
}
